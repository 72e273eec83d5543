"""Sentence pairs as text: inputs, blocks of pairs, word counts, and digests, which identify text without storing it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from heed.characters import normalized
from heed.errors import HeedError
from heed.progress import Advance, progress_bar

BLOCK = 20_000  # sentence pairs held as Python strings at a time: a few MB


class Source(Protocol):
    """One input of a text, such as a file or a pair of files."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def size(self) -> int:
        """Number of bytes that ``blocks`` reads."""

    def identity(self) -> tuple[Any, ...]:
        """Return the cache key of the input: paths, sizes and times of the files, and how they are read."""

    def blocks(self, advance: Advance) -> Iterator["Sentences"]:
        """Yield the pairs, about ``BLOCK`` at a time, or raise a HeedError that names the invalid file and line."""


@dataclass(frozen=True)
class Sentences:
    """Sentence pairs in memory. It is also a `Source`, for generated training text."""

    src: list[str]
    tgt: list[str]
    meta: list[str] | None = None  # the annotation of each pair as JSON; None if the corpus is not annotated
    scores: list[float] | None = None  # quality of each pair, if the input has a score column
    name: ClassVar[str] = "the built-in corpus"

    @classmethod
    def read(cls, sources: Iterable[Source]) -> "Sentences":
        """Read inputs into memory, or raise a HeedError if one of them is invalid or has no sentences."""
        src: list[str] = []
        tgt: list[str] = []
        for source in sources:
            before = len(src)
            with progress_bar(f"Reading {source.name:.60}", total=source.size, unit="B") as bar:
                for block in source.blocks(bar.update):
                    src += block.src
                    tgt += block.tgt
            if len(src) == before:
                raise HeedError(f"{source.name}: no sentences.")
        return cls(src, tgt)

    def __len__(self) -> int:
        return len(self.src)

    def map(self, function: Callable[[str], str]) -> "Sentences":
        """Apply a function to every sentence."""
        return replace(self, src=list(map(function, self.src)), tgt=list(map(function, self.tgt)))

    def swapped(self) -> "Sentences":
        """Return the pairs with source and target swapped."""
        return replace(self, src=self.tgt, tgt=self.src)

    def take(self, rows: Sequence[int]) -> "Sentences":
        """Return the text of these pairs."""
        return Sentences([self.src[row] for row in rows], [self.tgt[row] for row in rows])

    @property
    def size(self) -> int:
        return sum(map(len, (*self.src, *self.tgt)))

    def identity(self) -> tuple[Any, ...]:
        return "memory", self.src, self.tgt

    def blocks(self, advance: Advance) -> Iterator["Sentences"]:
        for start in range(0, len(self), BLOCK):
            block = Sentences(self.src[start : start + BLOCK], self.tgt[start : start + BLOCK])
            advance(block.size)
            yield block


@dataclass
class WordCounts:
    """Counts of the words on both sides of some pairs. Words are separated by spaces and tabs."""

    src: Counter[str] = field(default_factory=Counter)
    tgt: Counter[str] = field(default_factory=Counter)
    pairs: int = 0

    @classmethod
    def of(cls, block: Sentences) -> "WordCounts":
        """Count the words of some pairs."""
        src, tgt = (Counter(" ".join(side).replace("\t", " ").split(" ")) for side in (block.src, block.tgt))
        return cls(src, tgt, len(block))

    def update(self, other: "WordCounts") -> None:
        """Add the counts of other pairs."""
        self.src.update(other.src)
        self.tgt.update(other.tgt)
        self.pairs += other.pairs


# ---- digests

Digests = npt.NDArray[np.uint64]
"""Digests of text. Among 10 million different pairs, the probability of any collision is 3 in a million."""


def text_digests(texts: Iterable[str]) -> Digests:
    """Return the digest of each text."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8")


def pair_digests(block: Sentences) -> Digests:
    """Return the digest of each pair."""
    return text_digests(f"{src}\n{tgt}" for src, tgt in zip(block.src, block.tgt, strict=True))


def source_digests(sources: Iterable[str]) -> Digests:
    """Return the sorted digests of the distinct sentences as they are compared, see `normalized`."""
    return np.unique(text_digests(map(normalized, sources)))


def are_in(digests: Digests, sorted_digests: Digests) -> npt.NDArray[np.bool_]:
    """Return whether each digest is one of ``sorted_digests``."""
    if not len(sorted_digests):
        return np.zeros(len(digests), np.bool_)
    places = np.searchsorted(sorted_digests, digests).clip(max=len(sorted_digests) - 1)
    return sorted_digests[places] == digests


def mixed(digests: Digests, numbers: npt.NDArray[np.integer]) -> Digests:
    """Return a digest of each (digest, number) pair; number 0 returns the digest unchanged."""
    numbers = numbers.astype(np.uint64)
    # Multiples of 2⁶⁴ / golden ratio are spread evenly over the 64-bit integers.
    values = digests + numbers * np.uint64(0x9E3779B97F4A7C15)
    # The finaliser of MurmurHash3: every input bit affects every output bit.
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.where(numbers == 0, digests, values ^ (values >> np.uint64(33)))


def set_digest(digests: Digests) -> str:
    """Return a digest of the digests that does not depend on their order."""
    ones = np.ones(len(digests), dtype=np.uint64)
    sums = [len(digests), int(digests.sum(dtype=np.uint64)), int(mixed(digests, ones).sum(dtype=np.uint64))]
    return hashlib.blake2b(repr(sums).encode(), digest_size=16).hexdigest()


def text_digest(*texts: Sentences) -> str:
    """Return a digest of the sentences of evaluation sets and of their order, the same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(f"{len(text)} pairs\n".encode())
        for sentences in (text.src, text.tgt):
            digest.update(("\n".join(sentences) + "\n\n").encode())
    return digest.hexdigest()
