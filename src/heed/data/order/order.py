"""The order in which training pairs are drawn. Every position is computed on demand, so a run can start anywhere."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from heed.data.pairs.pairs import IntArray, Pairs, TrainingPairs
from heed.data.text.corpus import Text
from heed.errors import HeedError

FRAME = 10_000
"""Period of the schedule: every this many consecutive sentences contain each text in exact proportion."""
EPOCHS_KEPT = 4  # epochs of a text whose order is cached


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


# ---- mixtures of texts by weight: the text at each position is a function of the position alone


def frame_counts(texts: Sequence[Text]) -> list[int]:
    """Return the sentences of each text in a frame: proportional to its weight, rounded by largest remainders.

    Raise a HeedError if a weight is so small that the text would never be drawn.
    """
    weights = np.array([text.weight for text in texts], dtype=np.float64)
    shares = weights / weights.sum() * FRAME
    counts = np.floor(shares).astype(np.int64)
    counts[np.argsort(counts - shares, kind="stable")[: FRAME - int(counts.sum())]] += 1
    if rare := [text.name for text, count in zip(texts, counts, strict=True) if not count]:
        raise HeedError(
            f"data.train.{rare[0]} would be less than 1 of {FRAME:,} sentences: give it a larger weight, or leave it "
            "out."
        )
    return (counts // np.gcd.reduce(counts)).tolist()


class MixtureOrder(Order):
    """The endless sequence of a mixture's sentences. Each text repeats as needed, every time in a new order.

    The texts alternate in a repeating pattern, the frame.

    Args:
        texts: the texts of ``pairs``, with their weights.
        step_tokens: target tokens of an optimizer step.
    """

    def __init__(self, pairs: TrainingPairs, texts: Sequence[Text], *, seed: int, step_tokens: float) -> None:
        self.pairs = pairs
        self._step_tokens = step_tokens
        self._epoch_steps = pairs.tgt_tokens / step_tokens
        self._epoch_order = lru_cache(EPOCHS_KEPT * len(texts))(
            lambda text, epoch: EpochOrder(pairs, seed=(seed, epoch, text), text=text)
        )
        self._counts = np.array(frame_counts(texts))
        # Spread each text evenly: a text of n sentences divides the frame into n parts, with one in each middle.
        times = np.concatenate([(np.arange(count) + 0.5) / count for count in self._counts])
        numbers = np.repeat(np.arange(len(texts)), self._counts)
        self._frame = numbers[np.lexsort((numbers, times))]
        self._in_frame = np.pad(np.cumsum(self._frame[:, None] == np.arange(len(texts)), axis=0), ((1, 0), (0, 0)))

    def drawn(self, position: int) -> IntArray:
        """Return the number of sentences of each text before a position."""
        frames, slot = divmod(position, len(self._frame))
        return frames * self._counts + self._in_frame[slot]

    def steps(self, epochs: float) -> int:
        """Return the number of steps that have as many target tokens as ``epochs`` passes over all texts."""
        return max(1, round(epochs * self._epoch_steps))

    def end(self, epochs: float) -> float:
        """Return the position after `steps`; infinity for infinitely many epochs."""
        return math.inf if math.isinf(epochs) else self.position_of(math.ceil(self.steps(epochs) * self._step_tokens))

    def boundaries(self, first: int, last: int) -> Sequence[int]:
        # Ignore max_epochs: a resumed run may change it, and must cut the same pools.
        epochs = range(max(1, int(first / self._epoch_steps)), int(last / self._epoch_steps) + 2)
        ends = {self.steps(number) for number in epochs}
        return [step for step in sorted(ends) if first < step < last]

    def tokens_before(self, position: int) -> int:
        return sum(self._tokens(number, count) for number, count in enumerate(self.drawn(position).tolist()))

    def position_of(self, tokens: int) -> int:
        high = 1
        while self.tokens_before(high) < tokens:
            high *= 2
        return bisect_left(range(high), tokens, lo=high // 2, key=self.tokens_before)

    def rows(self, first: int, stop: int) -> IntArray:
        """Return the rows of the pairs at these positions. A row also encodes the epoch of the pair's text."""
        texts, rows = self._frame[np.arange(first, stop) % len(self._frame)], np.empty(stop - first, np.int64)
        counts = zip(self.drawn(first).tolist(), self.drawn(stop).tolist(), strict=True)
        for number, (begin, end) in enumerate(counts):
            rows[texts == number] = self._rows(number, begin, end)
        return rows

    def _tokens(self, text: int, count: int) -> int:
        """Return the target tokens of the first ``count`` sentences of a text."""
        order = self._epoch_order(text, 0)
        epoch, rest = divmod(count, order.length)
        before = epoch * order.tokens_before(order.length)
        return before + (self._epoch_order(text, epoch).tokens_before(rest) if rest else 0)

    def _rows(self, text: int, first: int, stop: int) -> IntArray:
        """Return the rows of the sentences ``first`` to ``stop`` of a text, counted over all its epochs."""
        rows, size = [np.zeros(0, np.int64)], self._epoch_order(text, 0).length
        for epoch in range(first // size, -(-stop // size)):
            start = epoch * size
            own = self._epoch_order(text, epoch).rows(max(first, start) - start, min(stop, start + size) - start)
            rows.append(own + epoch * len(self.pairs))
        return np.concatenate(rows)
