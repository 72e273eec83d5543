"""Sequences of different lengths in one flat array."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """A ragged array: sequence i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Ids
    """The concatenated sequences; may be memory-mapped."""
    offsets: Offsets
    """Start of each sequence, and ``len(values)`` at the end: one entry more than there are sequences."""

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Ragged":
        """Return the given sequences as an array in memory."""
        lengths = np.fromiter((len(sequence) for sequence in sequences), dtype=np.int64, count=len(sequences))
        values = np.fromiter((token for sequence in sequences for token in sequence), np.int32, count=lengths.sum())
        return cls.of_lengths(values, lengths)

    @classmethod
    def of_lengths(cls, values: Ids, lengths: npt.NDArray[np.integer[Any]]) -> "Ragged":
        """Return the sequences of these lengths in ``values``."""
        return cls(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]))

    @classmethod
    def concatenate(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """Return the sequences of all parts."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls.of_lengths(np.concatenate([part.values for part in parts]), lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Ids]:
        return (self[index] for index in range(len(self)))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each sequence."""
        return np.diff(self.offsets)


BLOCK = 2**16
"""Sequences that `gather` copies at a time, which bounds the memory of its index arrays."""


def take(ragged: Ragged, rows: npt.NDArray[np.integer[Any]]) -> Ragged:
    """Return the sequences with these indices, in their order, in memory."""
    starts = ragged.offsets[rows]
    return gather(ragged.values, starts, ragged.offsets[rows + 1] - starts)


def gather(values: Ids, starts: Offsets, lengths: npt.NDArray[np.int64]) -> Ragged:
    """Return the sequences ``values[start : start + length]``, in memory."""
    taken = Ragged.of_lengths(np.empty(int(lengths.sum()), values.dtype), lengths)
    for first in range(0, len(starts), BLOCK):
        stop = min(first + BLOCK, len(starts))
        # Position in ``values`` of each token: its position in ``taken``, shifted by as much as its sequence is.
        positions = np.arange(taken.offsets[first], taken.offsets[stop])
        positions += np.repeat(starts[first:stop] - taken.offsets[first:stop], lengths[first:stop])
        taken.values[taken.offsets[first] : taken.offsets[stop]] = values[positions]
    return taken
