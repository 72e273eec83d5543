"""The order in which training pairs are drawn. Every position is computed on demand, so a run can start anywhere."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from heed.data.pairs.pairs import IntArray, Pairs, TrainingPairs


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
        """Return the pairs at positions ``first`` to ``stop`` - 1."""
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
