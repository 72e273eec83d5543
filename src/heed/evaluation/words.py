"""Split lines into words, and pool attention over subword pieces to attention over words.

Evaluation has three definitions of a word: `split_words` for alignments and attention, `casefolded_words` for word
counts and sentence buckets, and `split_punctuation` for the annotations of the built-in corpus.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.characters import normalized
from heed.symbols import BOS_PIECE, EOS_PIECE, PAD_PIECE, UNK_PIECE, WORD_START

WordShares = npt.NDArray[np.float64]
"""Pieces × words: the share of each piece that belongs to each word. A row sums to 1, or to 0 for no word."""
AttentionMap = npt.NDArray[np.floating[Any]]
"""Attention weights "… T S" of target position t on source position s."""
UNKNOWN_BYTES = b"\xff"  # the text of an unknown piece: a byte that never occurs in UTF-8
SPACELESS_LETTERS = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Thai, Lao, Tibetan, Burmese, Khmer, kana and Han, written without spaces: each letter with its marks is a word."""
MARKS = "".join(char for char in map(chr, range(0x10000)) if unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf"))
"""Combining marks, which belong to their letter, and invisible joiners."""
LETTERS = rf"[^\W{SPACELESS_LETTERS}]+(?:[{MARKS}]+[^\W{SPACELESS_LETTERS}]*)*"
CASEFOLDED_WORD = re.compile(rf"(?!\W)[{SPACELESS_LETTERS}][{MARKS}]*|{LETTERS}(?:['’-]{LETTERS})*")


# ---- words of a line


def split_words(line: str) -> list[str]:
    """Split a line at spaces and tabs, as Pharaoh alignments do."""
    return re.findall(r"[^ \t]+", line)


def split_punctuation(sentence: str) -> list[str]:
    """Split a sentence into words and punctuation marks, each mark on its own; "didn't" is one word."""
    return re.findall(r"\w+(?:'\w+)*|[^\w\s]", sentence)


def casefolded_words(line: str) -> list[str]:
    """Return the casefolded words of a line without punctuation; in scripts without spaces, each letter is a word.

    In Turkish, ı is the lower case of I, and i that of İ. All are i here, because the language of the line is unknown.
    """
    return CASEFOLDED_WORD.findall(normalized(line).casefold().replace("i\u0307", "i").replace("ı", "i"))


# ---- from pieces to words


def word_shares(pieces: Sequence[str], words: Sequence[str]) -> WordShares:
    """Return the share of each SentencePiece piece that belongs to each word, in UTF-8 bytes.

    Pieces and words are matched by byte offset, because they spell the same text. Where the texts differ (the tokenizer
    normalized "№" to "No", or a piece is unknown), differing spans are matched proportionally. A byte-fallback piece
    ("<0xC3>") counts as its byte. BOS, EOS, a lone "▁" and text between words belong to no word.
    """
    piece_texts = [piece_bytes(piece) for piece in pieces]
    as_given = [_word_bytes(word) for word in words]
    # SentencePiece's default normalization is based on NFKC.
    normalized = [_word_bytes(unicodedata.normalize("NFKC", word)) for word in words]
    word_texts = max(as_given, normalized, key=lambda texts: _similarity(b"".join(piece_texts), b"".join(texts)))
    starts, stops = _offsets(piece_texts)
    first, last = _offsets(word_texts)
    shares = np.zeros((len(pieces), len(words)))
    for a, b, c, d in _matching_spans(b"".join(piece_texts), b"".join(word_texts)):
        # Bytes a…b of the pieces correspond to bytes c…d of the words.
        scale = (d - c) / (b - a)
        start, stop = (c + scale * (edge.clip(a, b) - a) for edge in (starts, stops))
        overlap = np.minimum(stop[:, None], last) - np.maximum(start[:, None], first)
        shares += overlap.clip(min=0) / scale
    return divide(shares, shares.sum(1, keepdims=True), otherwise=0.0)


def pool(weights: AttentionMap, tgt: WordShares, src: WordShares) -> npt.NDArray[np.float64]:
    """Pool attention over pieces "… T S" to attention over words "… J I".

    The weights of a source word's pieces are summed. The rows of a target word's pieces are averaged, weighted by
    their shares. A row sums to at most 1, because attention on EOS belongs to no word. The row of a word without
    pieces is zero. ``tgt`` "T J" and ``src`` "S I" are `word_shares`.
    """
    return divide(tgt.T @ (weights @ src), tgt.sum(0)[:, None], otherwise=0.0)


def divide(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any], *, otherwise: float) -> WordShares:
    """Return the quotient, and ``otherwise`` where the denominator is not positive."""
    return np.divide(numerator, denominator, out=np.full(numerator.shape, otherwise), where=denominator > 0)


def piece_bytes(piece: str) -> bytes:
    """Return the text of a piece in UTF-8, without the mark of a word's start; a byte that is no text for UNK."""
    if piece in (PAD_PIECE, BOS_PIECE, EOS_PIECE):
        return b""
    if piece == UNK_PIECE:
        return UNKNOWN_BYTES
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
        return bytes.fromhex(byte[1])
    return _word_bytes(piece)


def _word_bytes(word: str) -> bytes:
    return word.replace(WORD_START, "").encode()


def _offsets(strings: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the start and stop of each string in their concatenation."""
    lengths = np.array([len(string) for string in strings], dtype=np.int64)
    stops = lengths.cumsum()
    return stops - lengths, stops


def _similarity(a: bytes, b: bytes) -> float:
    return 1.0 if a == b else SequenceMatcher(None, a, b, autojunk=False).ratio()


def _matching_spans(a: bytes, b: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start in a, stop in a, start in b, stop in b) of the equal spans, and of the spans between them."""
    spans = [("equal", 0, len(a), 0, len(b))] if a == b else SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for _, start_a, stop_a, start_b, stop_b in spans:
        if start_a < stop_a and start_b < stop_b:
            yield start_a, stop_a, start_b, stop_b
