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
KINDS: dict[str | None, AttentionKind] = {
    None: "cross", "cross": "cross", "encoder": "encoder_self", "decoder": "decoder_self"
}  # fmt: skip
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
    """Translate a sentence, then force rows of its attention and translate again.

    An instruction is ``[cross | encoder | decoder] [layer L] [head H]: WORD → WORD``, where ``->`` is an arrow too.
    The first word's row gets all its weight on the second word; without layer or head, in all of them. In the decoder
    this is the row that predicts the first word: the words before it are kept, and the search continues from there.

    A word stands for all its pieces, with equal weights. ``es#2`` is its second occurrence. ``</s>`` is the end of the
    sentence.

    Args:
        instructions: one or several. Their words are those of the first translation.
        target: the first translation; None: the model's own.
        search: changes to the search, see `SearchOptions`.

    Returns:
        Both translations with their attention maps. Those of the second show the forced weights.

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
        raise HeedError(
            f"{instruction!r} cannot be read: write 'cross: es → animal', 'encoder: it → animal' or "
            "'cross layer 2 head 3: es → animal'."
        )
    kind, query, key = KINDS[found[1]], found[4], found[5]
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
        occurs = f"{len(by_number)} times" if by_number else "not"
        raise HeedError(f"{word!r}: the word {name!r} occurs {occurs} in the {side} {text!r}.")
    return by_number[number or "1"]
