"""Text of datasets of the Hugging Face hub."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heed.data.files import one_line
from heed.data.text import BLOCK, Advance, Block, Part

if TYPE_CHECKING:
    from datasets import Dataset

PART = 250_000
"""Rows of a part."""


@dataclass(frozen=True)
class DatasetSource:
    """A split of a dataset.

    Args:
        dataset: the split, memory-mapped.
        columns: of source and target.
    """

    dataset: "Dataset"
    columns: tuple[str, str]

    def identity(self) -> tuple[Any, ...]:
        return "hub", self.dataset._fingerprint, len(self.dataset), self.columns

    def parts(self) -> Sequence[Part]:
        starts = range(0, len(self.dataset), PART)
        return [
            DatasetPart(self.dataset, self.columns, start, min(start + PART, len(self.dataset))) for start in starts
        ]


@dataclass(frozen=True)
class DatasetPart:
    """Consecutive rows of a split."""

    dataset: "Dataset"
    columns: tuple[str, str]
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"rows {self.start + 1:,} to {self.stop:,} of {self.dataset.builder_name or 'the dataset'}"

    @property
    def size(self) -> int:
        return self.stop - self.start

    def read(self, advance: Advance) -> Iterator[Block]:
        for start in range(self.start, self.stop, BLOCK):
            rows = self.dataset[start : min(start + BLOCK, self.stop)]
            src, tgt = ([one_line(text or "") for text in rows[column]] for column in self.columns)
            advance(len(src))
            yield Block(src, tgt)
