"""The order in which training pairs are drawn. Every position is computed on demand, so a run can start anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.data.pairs import IntArray, Pairs, StoredPairs, flatten, lengths, unflatten


@dataclass(frozen=True)
class View:
    """One direction of stored pairs.

    Args:
        store: the pairs.
        swapped: whether source and target are swapped.
        tags: ids that start every non-empty source.
    """

    store: StoredPairs
    swapped: bool = False
    tags: tuple[int, ...] = ()

    @property
    def src_tokens(self) -> IntArray:
        """Source tokens of each chunk, including tags and EOS."""
        return self.store.chunk_tokens[:, int(self.swapped)] + (1 + len(self.tags)) * self.store.chunk_rows

    @property
    def tgt_tokens(self) -> IntArray:
        """Target tokens of each chunk, including EOS."""
        return self.store.chunk_tokens[:, int(not self.swapped)] + self.store.chunk_rows

    def tgt_lengths(self, chunk: int) -> IntArray:
        """Target tokens of each pair of a chunk, including EOS."""
        return self.store.lengths(chunk)[:, 0 if self.swapped else 1] + 1

    def read(self, chunks: IntArray) -> Pairs:
        """Return the pairs of these chunks, without tags."""
        pairs = self.store.read(chunks)
        return Pairs(pairs.rows, pairs.tgt, pairs.src) if self.swapped else pairs


class TrainingPairs:
    """The training pairs of a corpus: one direction of its stored pairs, or both.

    Args:
        views: the directions.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self.views = views
        self._first_chunk = np.cumsum([0, *(view.store.chunks for view in views)])
        self._first_row = np.cumsum([0, *(len(view.store) for view in views)])
        self.chunk_rows = np.concatenate([view.store.chunk_rows for view in views])
        """Pairs of each chunk."""
        self.chunk_tgt_tokens = np.concatenate([view.tgt_tokens for view in views])
        """Target tokens of each chunk, including EOS."""

    def __len__(self) -> int:
        return int(self._first_row[-1])

    @property
    def src_tokens(self) -> int:
        """Source tokens, including tags and EOS."""
        return int(sum(view.src_tokens.sum() for view in self.views))

    @property
    def tgt_tokens(self) -> int:
        """Target tokens, including EOS."""
        return int(self.chunk_tgt_tokens.sum())

    def tgt_lengths(self, chunk: int) -> IntArray:
        """Target tokens of each pair of a chunk, including EOS."""
        view = int(np.searchsorted(self._first_chunk, chunk, side="right")) - 1
        return self.views[view].tgt_lengths(chunk - int(self._first_chunk[view]))

    def read(self, chunks: IntArray) -> Pairs:
        """Return the pairs of these chunks, in their order, without tags."""
        views = np.searchsorted(self._first_chunk, chunks, side="right") - 1
        parts, places = [], []
        for view in np.unique(views):
            place = np.flatnonzero(views == view)
            part = self.views[view].read(chunks[place] - self._first_chunk[view])
            parts.append(Pairs(part.rows + self._first_row[view], part.src, part.tgt))
            places.append(np.repeat(place, self.chunk_rows[chunks[place]]))
        if len(parts) == 1:
            return parts[0]
        return Pairs.concatenate(parts).take(np.argsort(np.concatenate(places), kind="stable"))

    def tagged(self, pairs: Pairs) -> Pairs:
        """Return pairs with the tags of their direction in front of their sources."""
        if not any(view.tags for view in self.views):
            return pairs
        rows = pairs.rows % len(self)  # rows of a mixture count its epochs
        view = np.searchsorted(self._first_row, rows, side="right") - 1
        view = np.where(pairs.src_lengths > 0, view, len(self.views))  # an empty source stays empty
        tags = pa.array([*(view.tags for view in self.views), ()], pairs.src.type).take(pa.array(view))
        values, offsets = flatten(pairs.src)
        counts = lengths(tags)
        tagged = np.insert(values, np.repeat(offsets[:-1], counts), tags.flatten().to_numpy())
        return Pairs(pairs.rows, unflatten(tagged, pairs.src_lengths + counts), pairs.tgt)


class Order(Protocol):
    """A sequence of pairs, read by position. Positions before which there is a number of tokens can be found."""

    @property
    def length(self) -> int | None:
        """Number of pairs; None: endless."""

    def boundaries(self, first: int, last: int) -> Sequence[int]:
        """Return the steps between two others before which a pool must end."""

    def tokens_before(self, position: int) -> int:
        """Return the target tokens of all pairs before a position, including EOS."""

    def position_of(self, tokens: int) -> int:
        """Return the first position before which there are at least this many target tokens."""

    def read(self, first: int, stop: int) -> Pairs:
        """Return the pairs from one position to before another, without tags."""


class EpochOrder:
    """All pairs once: the chunks in random order, and in a chunk the order in which they are stored.

    The stored order is random too, and the pairs of some hundred chunks are shuffled together
    (`heed.data.steps`).

    Args:
        pairs: the training pairs.
        seed: of the order.
    """

    def __init__(self, pairs: TrainingPairs, *, seed: Sequence[int]) -> None:
        self.pairs = pairs
        permutation = RandomPermutation(len(pairs.chunk_rows), np.random.default_rng(tuple(seed)))
        self._chunks = permutation(np.arange(len(pairs.chunk_rows)))
        self._rows = np.append(0, np.cumsum(pairs.chunk_rows[self._chunks]))
        self._tokens = np.append(0, np.cumsum(pairs.chunk_tgt_tokens[self._chunks]))

    @property
    def length(self) -> int | None:
        return len(self.pairs)

    def boundaries(self, first: int, last: int) -> Sequence[int]:
        return ()

    def tokens_before(self, position: int) -> int:
        index = int(np.searchsorted(self._rows, position, side="right")) - 1
        rest = position - int(self._rows[index])
        inside = self.pairs.tgt_lengths(int(self._chunks[index]))[:rest].sum() if rest else 0
        return int(self._tokens[index] + inside)

    def position_of(self, tokens: int) -> int:
        index = int(np.searchsorted(self._tokens, tokens, side="left"))
        if index == 0 or index == len(self._tokens):
            return int(self._rows[min(index, len(self._rows) - 1)])
        # The position is in the chunk before.
        ends = np.cumsum(self.pairs.tgt_lengths(int(self._chunks[index - 1])))
        inside = int(np.searchsorted(ends, tokens - self._tokens[index - 1], side="left")) + 1
        return int(self._rows[index - 1]) + inside

    def read(self, first: int, stop: int) -> Pairs:
        if first == stop:
            return self.pairs.read(self._chunks[:1]).take(np.zeros(0, dtype=np.int64))
        begin = int(np.searchsorted(self._rows, first, side="right")) - 1
        end = int(np.searchsorted(self._rows, stop, side="left"))
        pairs = self.pairs.read(self._chunks[begin:end])
        skipped = first - int(self._rows[begin])
        if skipped == 0 and len(pairs) == stop - first:
            return pairs
        return pairs.take(np.arange(skipped, skipped + stop - first))


class RandomPermutation:
    """A pseudo-random permutation of 0 .. size - 1 that is computed per position, without memory for all positions.

    A Feistel network (Luby & Rackoff 1988) permutes 0 .. 4ⁿ - 1 for some 4ⁿ ≥ size; results of at least ``size`` are
    permuted again until they are smaller (cycle walking: Black & Rogaway 2002, §3).

    Args:
        size: number of elements.
        rng: source of the keys.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size = size
        # One key per round. Four rounds suffice in theory, but are measurably uneven for sizes below a hundred.
        self.keys = rng.integers(2**32, size=6, dtype=np.uint64)
        self.half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self.mask = np.uint64((1 << int(self.half)) - 1)

    def __call__(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the elements at these positions."""
        values = self._permute(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(values >= self.size)):
            values[outside] = self._permute(values[outside])
        return values.astype(np.int64)

    def _permute(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self.half, values & self.mask
        for key in self.keys:
            # The finaliser of MurmurHash3 mixes the key and one half into all bits.
            mixed = (right ^ key) * np.uint64(0xFF51AFD7ED558CCD)
            mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(33))) & self.mask)
        return (left << self.half) | right
