"""Parallel text: where it comes from, in parts that processes read independently, and small sets of it in memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from heed.data.directions import Direction
from heed.data.noise import Noise
from heed.errors import HeedError
from heed.progress import progress_bar

BLOCK = 20_000
"""Sentence pairs that are held as Python strings at a time: a few MB."""

Advance = Callable[[int], None]
"""Reports progress: called with the bytes done since the last call."""


@dataclass(frozen=True)
class Block:
    """Consecutive sentence pairs."""

    src: list[str]
    tgt: list[str]
    scores: list[float] | None = None
    """Quality of each pair, if the input has a score column."""

    def __len__(self) -> int:
        return len(self.src)

    def take(self, rows: Sequence[int]) -> "Block":
        """Return some of the pairs, without scores."""
        return Block([self.src[row] for row in rows], [self.tgt[row] for row in rows])

    def swapped(self) -> "Block":
        """Return the block with source and target swapped."""
        return replace(self, src=self.tgt, tgt=self.src)


@dataclass(frozen=True)
class Part:
    """Consecutive pairs of one source, read by one process. It must be picklable.

    Args:
        name: what it is called in messages: the file, and the first line if it is not the start of the file.
        size: about how many bytes it has, which ``advance`` counts.
        read: yields the pairs, about ``BLOCK`` at a time, or raises a HeedError that names file and line.
    """

    name: str
    size: int
    read: Callable[[Advance], Iterator[Block]]


class Source(Protocol):
    """One input of a text, such as a file or a pair of files."""

    def identity(self) -> tuple[Any, ...]:
        """Return what the prepared text is cached by: paths, sizes and times of the files, and how they are read."""

    def parts(self) -> Sequence[Part]:
        """Check the input and cut it into parts.

        Raises:
            HeedError: naming the input, if it is missing or invalid.
        """


@dataclass(frozen=True)
class Text:
    """A training text: where it comes from, and how it is used.

    Args:
        sources: its inputs.
        direction: its languages.
        name: its name in a mixture; "" if there is no other text.
        weight: its share of the sentences, relative to the other texts; None: decided by its size.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources, such as "<crawl>"; None: no tag.
        noise: of its sources; None: no noise.
        min_score: drop pairs with a lower score; None: no limit.
    """

    sources: Sequence[Source]
    direction: Direction
    name: str = ""
    weight: float | None = None
    from_step: int = 0
    tag: str | None = None
    noise: Noise | None = None
    min_score: float | None = None


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs in memory: an evaluation set, or a generated corpus, which is a source too."""

    src: list[str]
    tgt: list[str]
    meta: list[str] | None = None
    """The annotation of each pair as JSON; None if the corpus is not annotated."""

    @classmethod
    def read(cls, sources: Iterable[Source]) -> "ParallelText":
        """Read inputs into memory, one after the other.

        Raises:
            HeedError: if an input is invalid or has no sentences.
        """
        src: list[str] = []
        tgt: list[str] = []
        for source in sources:
            parts, before = source.parts(), len(src)
            names = ", ".join(part.name for part in parts)
            with progress_bar(f"Reading {names:.60}", total=sum(part.size for part in parts), unit="B") as bar:
                for block in (block for part in parts for block in part.read(bar.update)):
                    src += block.src
                    tgt += block.tgt
            if len(src) == before:
                raise HeedError(f"{names}: no sentences.")
        return cls(src, tgt)

    def __len__(self) -> int:
        return len(self.src)

    def identity(self) -> tuple[Any, ...]:
        return "memory", self.src, self.tgt

    def parts(self) -> Sequence[Part]:
        return [Part("the generated corpus", sum(map(len, (*self.src, *self.tgt))), self._blocks)]

    def _blocks(self, advance: Advance) -> Iterator[Block]:
        for start in range(0, len(self), BLOCK):
            block = Block(self.src[start : start + BLOCK], self.tgt[start : start + BLOCK])
            advance(sum(map(len, (*block.src, *block.tgt))))
            yield block


@dataclass
class WordCounts:
    """How often each word occurs on both sides of some pairs. Words are what stands between spaces and tabs."""

    src: Counter[str] = field(default_factory=Counter)
    tgt: Counter[str] = field(default_factory=Counter)
    pairs: int = 0

    def add(self, block: Block) -> None:
        """Count the words of more pairs."""
        for counts, sentences in ((self.src, block.src), (self.tgt, block.tgt)):
            counts.update(" ".join(sentences).replace("\t", " ").split(" "))
        self.pairs += len(block)

    def update(self, other: "WordCounts") -> None:
        """Add the counts of other pairs."""
        self.src.update(other.src)
        self.tgt.update(other.tgt)
        self.pairs += other.pairs
