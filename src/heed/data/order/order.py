"""The order in which training pairs are drawn. Every position is computed on demand, so a run can start anywhere."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from heed.data.pairs.pairs import IntArray, Pairs, StoredPairs, flatten, lengths, pair_lengths, unflatten


class View(NamedTuple):
    """One direction of the stored pairs of a text."""

    store: StoredPairs
    swapped: bool = False  # whether source and target are swapped
    tags: tuple[int, ...] = ()  # ids that start every non-empty source
    text: int = 0  # index of the text in a mixture
    src_lang: str = ""  # language of the sources, "" if unknown

    @property
    def longest(self) -> IntArray:
        """Tokens of the longest source, the longest target and the longest pair, with tags and EOS."""
        return self._complete(np.array(self.store.longest))

    def lengths(self) -> IntArray:
        """Return the `pair_lengths` of all pairs, with tags and EOS."""
        stored = [pair_lengths(lengths(batch["src"]), lengths(batch["tgt"])) for batch in self.store.batches]
        return self._complete(np.concatenate(stored))

    def _complete(self, stored: IntArray) -> IntArray:
        tags = len(self.tags)
        return stored[..., [1, 0, 2] if self.swapped else [0, 1, 2]] + (tags + 1, 1, tags + 2)


class TrainingPairs:
    """All training pairs: the concatenation of all views.

    Row numbers continue from epoch to epoch: row ``len(pairs)`` is row 0 in the second epoch.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self.views = views
        self._batches = [batch for view in views for batch in view.store.batches]
        self._view_of_batch = np.repeat(np.arange(len(views)), [len(view.store.batches) for view in views])
        self._first_row = np.cumsum([0, *map(len, self._batches)])  # pairs before each batch
        starts = [
            np.arange(first, stop, views[number].store.chunk)
            for (first, stop), number in zip(pairwise(self._first_row), self._view_of_batch.tolist(), strict=True)
        ]
        self.chunk_starts = np.append(np.concatenate(starts), len(self))
        """Row of the first pair of each chunk, followed by the number of pairs."""
        tokens = [view.store.chunk_tokens[:, :: -1 if view.swapped else 1] for view in views]
        self.chunk_tgt_tokens = np.concatenate([part[:, 1] for part in tokens]) + np.diff(self.chunk_starts)
        """Target tokens of each chunk, including EOS."""
        self.src_tokens = sum(
            int(part[:, 0].sum()) + (1 + len(view.tags)) * len(view.store)
            for part, view in zip(tokens, views, strict=True)
        )
        """Source tokens, including tags and EOS."""
        self.tgt_tokens = int(self.chunk_tgt_tokens.sum())  # target tokens, including EOS

    def __len__(self) -> int:
        return int(self._first_row[-1])

    def text_of(self, rows: IntArray) -> IntArray:
        """Return the index of the text of each row."""
        return np.array([view.text for view in self.views])[self.view_of(rows)]

    def read(self, rows: IntArray) -> Pairs:
        """Return the pairs of these rows, in their order, without tags."""
        # Read batch by batch: Arrow would copy all batches to take lists from several.
        numbers = self._batch_of(rows)
        by_batch = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[by_batch])) + 1
        parts = [self._read_batch(int(numbers[at[0]]), rows[at]) for at in np.split(by_batch, cuts)]
        return parts[0] if len(parts) == 1 else Pairs.concatenate(parts).take(np.argsort(by_batch))

    def _read_batch(self, number: int, rows: IntArray) -> Pairs:
        pairs = self._batches[number].take(pa.array(rows % len(self) - self._first_row[number]))
        src, tgt = ("tgt", "src") if self.views[self._view_of_batch[number]].swapped else ("src", "tgt")
        return Pairs(rows, pairs[src], pairs[tgt])

    def tagged(self, pairs: Pairs) -> Pairs:
        """Return the pairs with the tags of their view at the start of their sources."""
        if not any(view.tags for view in self.views):
            return pairs
        # An empty source stays empty.
        view = np.where(pairs.src_lengths > 0, self.view_of(pairs.rows), len(self.views))
        tags = pa.array([*(view.tags for view in self.views), ()], pairs.src.type).take(pa.array(view))
        values, offsets = flatten(pairs.src)
        counts = lengths(tags)
        tagged = np.insert(values, np.repeat(offsets[:-1], counts), tags.flatten().to_numpy())
        return replace(pairs, src=unflatten(tagged, pairs.src_lengths + counts))

    def view_of(self, rows: IntArray) -> IntArray:
        """Return the index of the view of each row."""
        return self._view_of_batch[self._batch_of(rows)]

    def _batch_of(self, rows: IntArray) -> IntArray:
        return np.searchsorted(self._first_row, rows % len(self), side="right") - 1


class Order(ABC):
    """A sequence of training pairs, and the number of target tokens before each position."""

    pairs: TrainingPairs
    length: float = math.inf  # number of positions

    def boundaries(self, first: int, last: int) -> Sequence[int]:
        """Return the steps between ``first`` and ``last`` at which a pool must end."""
        return ()

    @abstractmethod
    def tokens_before(self, position: int) -> int:
        """Return the target tokens of all pairs before a position, including EOS."""

    @abstractmethod
    def position_of(self, tokens: int) -> int:
        """Return the first position with at least this many target tokens before it."""

    @abstractmethod
    def rows(self, first: int, stop: int) -> IntArray:
        """Return the rows of the pairs at positions ``first`` to ``stop`` - 1."""

    def read(self, first: int, stop: int) -> Pairs:
        """Return the pairs at positions ``first`` to ``stop`` - 1, without tags."""
        return self.pairs.read(self.rows(first, stop))


class EpochOrder(Order):
    """Every pair once, in random order of the chunks. The pairs of a chunk keep their stored order.

    The stored order is random too, and `heed.data.steps.steps` shuffles the pairs of some hundred chunks together.

    With ``text``, the index of a text, only its pairs are read.
    """

    def __init__(self, pairs: TrainingPairs, *, seed: Sequence[int], text: int | None = None) -> None:
        self.pairs = pairs
        texts = pairs.text_of(pairs.chunk_starts[:-1])
        chunks = np.arange(len(texts)) if text is None else np.flatnonzero(texts == text)
        chunks = np.random.default_rng(tuple(seed)).permutation(chunks)
        self._first_rows = pairs.chunk_starts[chunks]
        self._starts = np.append(0, np.cumsum(np.diff(pairs.chunk_starts)[chunks]))
        self._tokens = np.append(0, np.cumsum(pairs.chunk_tgt_tokens[chunks]))
        self.length: int = int(self._starts[-1])
        self._chunk_ends = lru_cache(64)(self._read_chunk_ends)

    def tokens_before(self, position: int) -> int:
        index = int(np.searchsorted(self._starts, position, side="right")) - 1
        rest = position - int(self._starts[index])
        return int(self._tokens[index] + (self._chunk_ends(index)[rest] if rest else 0))

    def position_of(self, tokens: int) -> int:
        index = max(0, int(np.searchsorted(self._tokens, tokens)) - 1)
        return int(self._starts[index] + np.searchsorted(self._chunk_ends(index), tokens - self._tokens[index]))

    def rows(self, first: int, stop: int) -> IntArray:
        positions = np.arange(first, stop)
        index = np.searchsorted(self._starts, positions, side="right") - 1
        return self._first_rows[index] + positions - self._starts[index]

    def _read_chunk_ends(self, index: int) -> IntArray:
        """Return the cumulative target tokens of a chunk's pairs, starting with 0."""
        lengths = self.read(*self._starts[index : index + 2].tolist()).tgt_lengths + 1
        return np.cumsum(np.append(0, lengths))
