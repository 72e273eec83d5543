"""Force a word to attend to another word, and translate again."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Unpack

import numpy as np

from heed.errors import HeedError
from heed.evaluation.words import CASEFOLDED_WORD, word_shares
from heed.inference.outputs import Attended
from heed.inference.searches import TranslateOptions
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
    instructions: str | Edit | Sequence[str | Edit],
    *,
    target: str | None = None,
    **options: Unpack[TranslateOptions],
) -> tuple[Attended, Attended]:
    """Translate a sentence, force rows of its attention, and translate again; return both with their maps.

    In the decoder, the forced row is the one that predicts the first word of the instruction. The words before it are
    kept, and the search continues from there.

    Args:
        instructions: ``[cross | encoder | decoder] [layer L] [head H]: WORD → WORD``, where ``->`` is an arrow too;
            without layer or head, in all of them. A word stands for all its pieces, with equal weights. ``es#2`` is
            the second "es" of the first translation, ``</s>`` the end of the sentence. Or edits, such as `force_row`
            returns.
        target: the first translation; None: the model's own.
        options: changes to the search, a prefix and terms, see `TranslateOptions`.

    Raises:
        HeedError: if an instruction cannot be read, or names an attention, a layer, a head or a word that is not there.
    """
    if target is not None:
        options = {**options, "protect": False}  # its pieces are those of the text
    (before,) = translator.attend([sentence], None if target is None else [target], **options)
    given = [instructions] if isinstance(instructions, str | Edit) else instructions
    edits = [each if isinstance(each, Edit) else _edit(each, before) for each in given]
    starts = [min(edit.positions or [0]) for edit in edits if edit.attention != "encoder_self"]
    prefix = before.tgt_ids[: min(starts, default=0)]
    (after,) = translator.with_edits(edits, prefix).attend([sentence], **options)
    return before, after


def force_row(
    attention: AttentionKind,
    queries: Collection[int],
    keys: Collection[int],
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Edit:
    """Return the edit with which the queries attend to these keys only, with equal weights.

    Args:
        queries, keys, layer, head: counted from 0. None: all layers, all heads.
    """
    keys = sorted({*keys})
    weights = np.zeros((1, 1, 1, max(keys) + 1))
    weights[..., keys] = 1 / len(keys)
    layers, heads = (None if number is None else [number] for number in (layer, head))
    return Edit(attention, weights, layers, heads, positions=queries)


def named_words(text: str, pieces: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of the pieces of each word. The words have the names of instructions, such as "es#2"."""
    words, count = WORD.findall(text), Counter[str]()
    found = {piece: [pieces.index(piece)] for piece in SPECIAL_PIECES if piece in pieces}
    for word, shares in zip(words, word_shares(pieces, words).T, strict=True):
        if positions := np.flatnonzero(shares).tolist():
            count[word.casefold()] += 1
            nth = count[word.casefold()]
            found[f"{word}#{nth}" if nth > 1 else word] = positions
    return found


def _edit(instruction: str, pair: Attended) -> Edit:
    """Return the edit of an instruction, whose words are those of the sentence pair."""
    if not (found := INSTRUCTION.fullmatch(instruction.strip())):
        raise HeedError(f"{instruction!r} must be like 'cross: es → animal' or 'encoder layer 2 head 3: it → animal'.")
    kind, query, key = KINDS[found[1] or "cross"], found[4], found[5]
    layer, head = (int(number) - 1 if number else None for number in found.group(2, 3))
    source, target = ("source", pair.source, pair.src_pieces), ("translation", pair.target, pair.tgt_pieces)
    rows = _find(query, *(source if kind == "encoder_self" else target))
    keys = _find(key, *((target[0], target[1], pair.read_pieces) if kind == "decoder_self" else source))
    if kind == "decoder_self" and max(keys) > min(rows):
        raise HeedError(f"The decoder reads {key!r} after it has predicted {query!r}: choose a word further left.")
    return force_row(kind, rows, keys, layer=layer, head=head)


def _find(word: str, side: str, text: str, pieces: Sequence[str]) -> list[int]:
    """Return the positions of a word's pieces."""
    by_name = {name.casefold(): positions for name, positions in named_words(text, pieces).items()}
    try:
        return by_name[word.casefold().removesuffix("#1")]
    except KeyError as error:
        raise HeedError(f"There is no {word!r} in the {side} {text!r}.") from error
