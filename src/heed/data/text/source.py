"""Sentence pairs as text: inputs, blocks of pairs, word counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from heed.errors import HeedError
from heed.progress import progress_bar

BLOCK = 20_000  # sentence pairs held as Python strings at a time: a few MB
Advance = Callable[[int], None]
"""Reports progress. It is called with the number of bytes read since the last call."""


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
