"""Force a word to attend to another word, and translate again."""

import re
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from heed.errors import HeedError
from heed.evaluation.words import CASEFOLDED_WORD, word_shares
from heed.inference.outputs import Attended
from heed.inference.searches import SearchOptions
from heed.inference.translator import Translator
from heed.layers.edits import AttentionKind, Edit
from heed.symbols import SPECIAL_PIECES

INSTRUCTION = re.compile(
    r"(?:(cross|encoder|decoder)\s*)?(?:layer\s+(\d+)\s*)?(?:head\s+(\d+)\s*)?:\s*(\S+)\s*(?:→|->)\s*(\S+)"
)
KINDS: dict[str, AttentionKind] = {"cross": "cross", "encoder": "encoder_self", "decoder": "decoder_self"}
WORD = re.compile(rf"{CASEFOLDED_WORD.pattern}|[^\w\s]")
"""A word, or a punctuation mark."""


def force(
    translator: Translator,
    sentence: str,
    instructions: str | Sequence[str],
    *,
    target: str | None = None,
    **search: Unpack[SearchOptions],
) -> tuple[Attended, Attended]:
    """Translate a sentence, force rows of its attention, and translate again; return both with their maps.

    In the decoder, the forced row is the one that predicts the first word of the instruction. The words before it are
    kept, and the search continues from there.

    Args:
        instructions: ``[cross | encoder | decoder] [layer L] [head H]: WORD → WORD``, where ``->`` is an arrow too;
            without layer or head, in all of them. A word stands for all its pieces, with equal weights. ``es#2`` is
            the second "es" of the first translation, ``</s>`` the end of the sentence.
        target: the first translation; None: the model's own.
        search: changes to the search, see `SearchOptions`.

    Raises:
        HeedError: if an instruction cannot be read, or names an attention, a layer, a head or a word that is not there.
    """
    (before,) = translator.attend([sentence], None if target is None else [target], **search)
    given = [instructions] if isinstance(instructions, str) else instructions
    edits = [_edit(instruction, before) for instruction in given]
    starts = [min(edit.positions or [0]) for edit in edits if edit.attention != "encoder_self"]
    vocabulary = translator.tokenizer.processors[1]
    prefix = [vocabulary.piece_to_id(piece) for piece in before.tgt_pieces[: min(starts, default=0)]]
    (after,) = translator.with_edits(edits, prefix).attend([sentence], **search)
    return before, after


def _edit(instruction: str, pair: Attended) -> Edit:
    """Return the edit of an instruction, whose words are those of the sentence pair."""
    if not (found := INSTRUCTION.fullmatch(instruction.strip())):
        raise HeedError(f"{instruction!r} must be like 'cross: es → animal' or 'encoder layer 2 head 3: it → animal'.")
    kind, query, key = KINDS[found[1] or "cross"], found[4], found[5]
    layers, heads = ([int(number) - 1] if number else None for number in found.group(2, 3))
    source, target = ("source", pair.source, pair.src_pieces), ("translation", pair.target, pair.tgt_pieces)
    rows = _find(query, *(source if kind == "encoder_self" else target))
    keys = _find(key, *((target[0], target[1], pair.read_pieces) if kind == "decoder_self" else source))
    if kind == "decoder_self" and max(keys) > min(rows):
        raise HeedError(f"The decoder reads {key!r} after it has predicted {query!r}: choose a word further left.")
    weights = np.zeros((1, 1, 1, max(keys) + 1))
    weights[..., keys] = 1 / len(keys)
    return Edit(kind, weights, layers, heads, positions=rows)


def _find(word: str, side: str, text: str, pieces: Sequence[str]) -> list[int]:
    """Return the positions of a word's pieces."""
    if word in SPECIAL_PIECES and word in pieces:
        return [pieces.index(word)]
    name, _, number = word.partition("#")
    words = WORD.findall(text)
    columns = zip(words, word_shares(pieces, words).T, strict=True)
    found = [np.flatnonzero(shares).tolist() for each, shares in columns if each.casefold() == name.casefold()]
    by_number = {str(nth): positions for nth, positions in enumerate(filter(None, found), start=1)}
    if (number or "1") not in by_number:
        raise HeedError(f"There is no {word!r} in the {side} {text!r}.")
    return by_number[number or "1"]
