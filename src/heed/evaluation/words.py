"""From pieces to words: attention maps are over subword pieces, but alignments and antecedents are about words."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

Shares = npt.NDArray[np.float64]
"""Pieces × words: how much of a piece belongs to each word. A row sums to 1, or to 0 where it belongs to none."""
Map = npt.NDArray[np.floating[Any]]
"""Attention weights "… T S": how much of what position t looked at was position s."""

SPACE = "▁"
"""SentencePiece's mark for a space (U+2581)."""
SPECIAL = ("<pad>", "<s>", "</s>")
UNKNOWN = "<unk>"
NO_CHARACTER = b"\xff"
"""What an unknown piece is written as: a byte that occurs in no UTF-8 text."""


def split_words(line: str) -> list[str]:
    """The words that alignments between lines of text count: what spaces and tabs separate."""
    return re.findall(r"[^ \t]+", line)


def word_shares(pieces: Sequence[str], words: Sequence[str]) -> Shares:
    """Which word each SentencePiece piece belongs to, in shares of the piece's UTF-8 bytes.

    Pieces and words write the same text, so that a byte's place in it decides. Where they do not (the tokenizer
    normalised "№" to "No", or a piece is unknown), the differing stretches are laid over each other proportionally,
    between the nearest stretches that agree. Bytes of byte fallback ("<0xC3>") count like others. BOS, EOS, a lone
    "▁" and whatever stands between the words belong to no word.
    """
    spelled = [_piece_bytes(piece) for piece in pieces]
    as_given = [_word_bytes(word) for word in words]
    # SentencePiece's default normalisation is NFKC at heart.
    normalised = [_word_bytes(unicodedata.normalize("NFKC", word)) for word in words]
    written = max(as_given, normalised, key=lambda form: _likeness(b"".join(spelled), b"".join(form)))
    starts, stops = _edges(spelled)
    first, last = _edges(written)
    shares = np.zeros((len(pieces), len(words)))
    for a, b, c, d in _stretches(b"".join(spelled), b"".join(written)):
        # Bytes a…b of the pieces write bytes c…d of the words.
        scale = (d - c) / (b - a)
        start, stop = (c + scale * (edge.clip(a, b) - a) for edge in (starts, stops))
        overlap = np.minimum(stop[:, None], last) - np.maximum(start[:, None], first)
        shares += overlap.clip(min=0) / scale
    return _divide(shares, shares.sum(1, keepdims=True))


def pool(weights: Map, tgt: Shares, src: Shares) -> npt.NDArray[np.float64]:
    """A map over pieces "… T S" as one over words "… J I", given `word_shares` of both sides.

    A word is looked at as much as its pieces together (sum over S), and looks where its pieces look on average (mean
    over T, each piece counted by its share). A row sums to at most 1: what went to EOS went to no word. The row of a
    word without pieces is zero.
    """
    return _divide(tgt.T @ (weights @ src), tgt.sum(0)[:, None])


def _divide(numerator: npt.NDArray[Any], denominator: Shares) -> Shares:
    """The quotient, zero where there is nothing to divide by."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _piece_bytes(piece: str) -> bytes:
    if piece in SPECIAL:
        return b""
    if piece == UNKNOWN:
        return NO_CHARACTER
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
        return bytes.fromhex(byte[1])
    return _word_bytes(piece)


def _word_bytes(word: str) -> bytes:
    return word.replace(SPACE, "").encode()


def _edges(strings: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each string starts and stops in their concatenation."""
    lengths = np.array([len(string) for string in strings], dtype=np.int64)
    stops = lengths.cumsum()
    return stops - lengths, stops


def _likeness(a: bytes, b: bytes) -> float:
    return 1.0 if a == b else SequenceMatcher(None, a, b, autojunk=False).ratio()


def _stretches(a: bytes, b: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(start in a, stop in a, start in b, stop in b) of the parts in which both say the same, and of those between."""
    matched = [("equal", 0, len(a), 0, len(b))] if a == b else SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for _, start_a, stop_a, start_b, stop_b in matched:
        if start_a < stop_a and start_b < stop_b:
            yield start_a, stop_a, start_b, stop_b
