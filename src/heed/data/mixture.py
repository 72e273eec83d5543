"""Several texts mixed by weight: which sentence comes from which text, as a function of the position alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from heed.data.order import EpochOrder, TrainingPairs
from heed.data.pairs import IntArray, Pairs
from heed.data.text import Text
from heed.errors import HeedError

FRAME = 10_000
"""Sentences after which the schedule repeats: this many consecutive ones contain each text in exact proportion."""

EPOCHS_KEPT = 4
"""Epochs of a text whose order is remembered."""


@dataclass(frozen=True)
class MixedText:
    """A text of a mixture, encoded.

    Args:
        text: the text.
        pairs: its pairs.
        weight: its share of the sentences, relative to the other texts.
        first_row: index of its first pair among the pairs of all texts.
    """

    text: Text
    pairs: TrainingPairs
    weight: float
    first_row: int


class Schedule:
    """Which text each position of an endless sequence has, in a frame that repeats.

    Args:
        counts: how often each text is in a frame.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        self.size = int(self.counts.sum())
        # The kth sentence of a text is at the middle of the kth of equal parts of the frame.
        times = np.concatenate([(np.arange(count) + 0.5) / max(1, count) for count in counts])
        texts = np.repeat(np.arange(len(counts)), counts)
        self._texts = texts[np.lexsort((texts, times))]
        before = np.cumsum(self._texts[:, None] == np.arange(len(counts)), axis=0)
        self._before = np.concatenate([np.zeros((1, len(counts)), np.int64), before])

    def drawn(self, position: int) -> IntArray:
        """Return how many sentences of each text are before a position."""
        frames, slot = divmod(position, self.size)
        drawn: IntArray = frames * self.counts + self._before[slot]
        return drawn

    def texts(self, first: int, stop: int) -> IntArray:
        """Return the text of each position."""
        return self._texts[np.arange(first, stop) % self.size]


def frame_counts(weights: Sequence[float], names: Sequence[str]) -> list[int]:
    """Return how often each text is in a frame: in proportion to its weight, rounded by largest remainders.

    Raises:
        HeedError: if a weight is so small that the text would never be drawn.
    """
    shares = np.array(weights) / np.sum(weights) * FRAME
    counts = np.floor(shares).astype(np.int64)
    counts[np.argsort(counts - shares, kind="stable")[: FRAME - int(counts.sum())]] += 1
    if rare := [name for name, count, weight in zip(names, counts, weights, strict=True) if weight and not count]:
        raise HeedError(
            f"data.train.{rare[0]} would be less than 1 of {FRAME:,} sentences: give it a larger weight, or leave it "
            "out."
        )
    divisor = int(np.gcd.reduce(counts))
    return (counts // divisor).tolist()


@dataclass(frozen=True)
class Phase:
    """Steps in which the same texts are drawn.

    Args:
        first: position at which it starts.
        drawn: sentences of each text before it.
        schedule: of the texts.
    """

    first: int
    drawn: IntArray
    schedule: Schedule


def text_of(texts: Sequence[MixedText], rows: IntArray) -> IntArray:
    """Return the index of each pair's text, by its row in a mixture."""
    total = sum(len(mixed.pairs) for mixed in texts)
    return np.searchsorted([mixed.first_row for mixed in texts], rows % total, side="right") - 1


class MixtureOrder:
    """The endless sequence of the sentences of a mixture. Each text is repeated in a new order as often as needed.

    Args:
        texts: the texts.
        seed: of the orders.
        step_tokens: target tokens of an optimizer step, which decide where a text starts that starts later.

    Raises:
        HeedError: if no text starts at step 0, or a weight is too small.
    """

    length: int | None = None

    def __init__(self, texts: Sequence[MixedText], *, seed: int, step_tokens: float) -> None:
        self.texts = texts
        self.seed = seed
        self._epoch_steps = sum(mixed.pairs.tgt_tokens for mixed in texts) / step_tokens
        if all(mixed.text.from_step for mixed in texts):
            raise HeedError("data.train: no text starts at step 0: set from_step of one of them to 0, or leave it out.")
        self._total = sum(len(mixed.pairs) for mixed in texts)
        self._epoch_order = lru_cache(EPOCHS_KEPT * len(texts))(self._new_epoch_order)
        self._phases: list[Phase] = []
        self._starts = sorted({mixed.text.from_step for mixed in texts} - {0})
        for step in (0, *self._starts):
            first = self.position_of(math.ceil(step * step_tokens)) if step else 0
            weights = [mixed.weight * (mixed.text.from_step <= step) for mixed in texts]
            drawn = self.drawn(first) if self._phases else np.zeros(len(texts), np.int64)
            schedule = Schedule(frame_counts(weights, [mixed.text.name for mixed in texts]))
            self._phases.append(Phase(first, drawn, schedule))

    def drawn(self, position: int) -> IntArray:
        """Return how many sentences of each text are before a position."""
        phase = self._phase(position)
        return phase.drawn + phase.schedule.drawn(position - phase.first)

    def steps(self, epochs: float) -> int:
        """Return the number of steps that have as many target tokens as ``epochs`` passes over all texts."""
        return max(1, round(epochs * self._epoch_steps))

    def boundaries(self, first: int, last: int) -> Sequence[int]:
        # Of all epochs, whatever the limit: a resumed run, which may have another one, must cut the same pools.
        epochs = range(max(1, int(first / self._epoch_steps)), int(last / self._epoch_steps) + 2)
        ends = {self.steps(number) for number in epochs}
        return [step for step in sorted({*self._starts, *ends}) if first < step < last]

    def tokens_before(self, position: int) -> int:
        return sum(self._tokens(number, int(count)) for number, count in enumerate(self.drawn(position)))

    def position_of(self, tokens: int) -> int:
        low, high = 0, 1
        while self.tokens_before(high) < tokens:
            low, high = high, 2 * high
        while low < high:
            middle = (low + high) // 2
            if self.tokens_before(middle) < tokens:
                low = middle + 1
            else:
                high = middle
        return low

    def read(self, first: int, stop: int) -> Pairs:
        """Return the pairs of these positions. The epoch of a pair's text is part of its row, see `text_of`."""
        texts = self._texts_at(first, stop)
        counts = zip(self.drawn(first).tolist(), self.drawn(stop).tolist(), strict=True)
        parts = [self._read(number, *count) for number, count in enumerate(counts)]
        places = np.argsort(np.argsort(texts, kind="stable"), kind="stable")
        return Pairs.concatenate([part for part in parts if part is not None]).take(places)

    def _phase(self, position: int) -> Phase:
        return next(phase for phase in reversed(self._phases) if phase.first <= position)

    def _texts_at(self, first: int, stop: int) -> IntArray:
        ends = [*(phase.first for phase in self._phases[1:]), max(stop, self._phases[-1].first)]
        pieces = []
        for phase, end in zip(self._phases, ends, strict=True):
            begin, finish = max(first, phase.first), min(stop, end)
            if begin < finish:
                pieces.append(phase.schedule.texts(begin - phase.first, finish - phase.first))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def _new_epoch_order(self, number: int, epoch: int) -> EpochOrder:
        return EpochOrder(self.texts[number].pairs, seed=(self.seed, epoch, number))

    def _tokens(self, number: int, count: int) -> int:
        """Return the target tokens of the first ``count`` sentences of a text."""
        pairs = self.texts[number].pairs
        epoch, rest = divmod(count, len(pairs))
        return epoch * pairs.tgt_tokens + (self._epoch_order(number, epoch).tokens_before(rest) if rest else 0)

    def _read(self, number: int, first: int, stop: int) -> Pairs | None:
        """Return some sentences of a text, by how many of it were drawn before."""
        mixed, parts = self.texts[number], []
        size = len(mixed.pairs)
        for begin, end in pairwise([first, *range((first // size + 1) * size, stop, size), stop]):
            epoch = begin // size
            pairs = self._epoch_order(number, epoch).read(begin - epoch * size, end - epoch * size)
            parts.append(Pairs(pairs.rows + mixed.first_row + epoch * self._total, pairs.src, pairs.tgt))
        return Pairs.concatenate(parts) if first < stop else None
