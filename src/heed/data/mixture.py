"""Several corpora mixed by weight: which sentence comes from which corpus, as a function of the position alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from heed.data.order import EpochOrder, TrainingPairs
from heed.data.pairs import IntArray, Pairs
from heed.errors import HeedError

FRAME = 10_000
"""Sentences after which the schedule repeats. Any so many consecutive sentences have every corpus in proportion."""

EPOCHS_KEPT = 4
"""Epochs of a corpus whose order is remembered."""


@dataclass(frozen=True)
class MixedCorpus:
    """A corpus of a mixture.

    Args:
        name: its name.
        pairs: its pairs.
        weight: its share of the sentences, relative to the other corpora.
        from_step: optimizer step from which on it is drawn.
        first_row: index of its first pair among the pairs of all corpora.
    """

    name: str
    pairs: TrainingPairs
    weight: float
    from_step: int
    first_row: int


class Schedule:
    """Which corpus each position of an endless sequence has, in a frame that repeats.

    Args:
        counts: how often each corpus is in a frame.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = np.array(counts, dtype=np.int64)
        self.size = int(self.counts.sum())
        # The kth sentence of a corpus is at the middle of the kth of equal parts of the frame.
        times = np.concatenate([(np.arange(count) + 0.5) / max(1, count) for count in counts])
        corpora = np.repeat(np.arange(len(counts)), counts)
        self._corpora = corpora[np.lexsort((corpora, times))]
        before = np.cumsum(self._corpora[:, None] == np.arange(len(counts)), axis=0)
        self._before = np.concatenate([np.zeros((1, len(counts)), np.int64), before])

    def drawn(self, position: int) -> IntArray:
        """Return how many sentences of each corpus are before a position."""
        frames, slot = divmod(position, self.size)
        drawn: IntArray = frames * self.counts + self._before[slot]
        return drawn

    def corpora(self, first: int, stop: int) -> IntArray:
        """Return the corpus of each position."""
        return self._corpora[np.arange(first, stop) % self.size]


def frame_counts(weights: Sequence[float], names: Sequence[str]) -> list[int]:
    """Return how often each corpus is in a frame: in proportion to its weight, rounded by largest remainders.

    Raises:
        HeedError: if a weight is so small that the corpus would never be drawn.
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
    """Steps in which the same corpora are drawn.

    Args:
        first: position at which it starts.
        drawn: sentences of each corpus before it.
        schedule: of the corpora.
    """

    first: int
    drawn: IntArray
    schedule: Schedule


def corpus_of(corpora: Sequence[MixedCorpus], rows: IntArray) -> IntArray:
    """Return the index of each pair's corpus, by its row in a mixture."""
    total = sum(len(corpus.pairs) for corpus in corpora)
    return np.searchsorted([corpus.first_row for corpus in corpora], rows % total, side="right") - 1


class MixtureOrder:
    """The endless sequence of the sentences of a mixture. Each corpus is repeated in a new order as often as needed.

    Args:
        corpora: the corpora.
        seed: of the orders.
        step_tokens: target tokens of an optimizer step, which decide where a corpus starts that starts later.

    Raises:
        HeedError: if no corpus starts at step 0, or a weight is too small.
    """

    length: int | None = None

    def __init__(self, corpora: Sequence[MixedCorpus], *, seed: int, step_tokens: float) -> None:
        self.corpora = corpora
        self.seed = seed
        self._epoch_steps = sum(corpus.pairs.tgt_tokens for corpus in corpora) / step_tokens
        if all(corpus.from_step for corpus in corpora):
            raise HeedError(
                "data.train: no corpus starts at step 0: set from_step of one of them to 0, or leave it out."
            )
        self._total = sum(len(corpus.pairs) for corpus in corpora)
        self._epoch_order = lru_cache(EPOCHS_KEPT * len(corpora))(self._new_epoch_order)
        self._phases: list[Phase] = []
        self._starts = sorted({corpus.from_step for corpus in corpora} - {0})
        for step in (0, *self._starts):
            first = self.position_of(math.ceil(step * step_tokens)) if step else 0
            weights = [corpus.weight * (corpus.from_step <= step) for corpus in corpora]
            drawn = self.drawn(first) if self._phases else np.zeros(len(corpora), np.int64)
            schedule = Schedule(frame_counts(weights, [corpus.name for corpus in corpora]))
            self._phases.append(Phase(first, drawn, schedule))

    def drawn(self, position: int) -> IntArray:
        """Return how many sentences of each corpus are before a position."""
        phase = self._phase(position)
        return phase.drawn + phase.schedule.drawn(position - phase.first)

    def steps(self, epochs: float) -> int:
        """Return the number of steps that have as many target tokens as so many epochs of all corpora."""
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
        """Return the pairs of these positions. The epoch of a pair's corpus is part of its row, see `corpus_of`."""
        corpora = self._corpora(first, stop)
        counts = zip(self.drawn(first).tolist(), self.drawn(stop).tolist(), strict=True)
        parts = [self._read(number, *count) for number, count in enumerate(counts)]
        places = np.argsort(np.argsort(corpora, kind="stable"), kind="stable")
        return Pairs.concatenate([part for part in parts if part is not None]).take(places)

    def _phase(self, position: int) -> Phase:
        return next(phase for phase in reversed(self._phases) if phase.first <= position)

    def _corpora(self, first: int, stop: int) -> IntArray:
        ends = [*(phase.first for phase in self._phases[1:]), max(stop, self._phases[-1].first)]
        pieces = []
        for phase, end in zip(self._phases, ends, strict=True):
            begin, finish = max(first, phase.first), min(stop, end)
            if begin < finish:
                pieces.append(phase.schedule.corpora(begin - phase.first, finish - phase.first))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def _new_epoch_order(self, number: int, epoch: int) -> EpochOrder:
        return EpochOrder(self.corpora[number].pairs, seed=(self.seed, epoch, number))

    def _tokens(self, number: int, count: int) -> int:
        """Return the target tokens of the first ``count`` sentences of a corpus."""
        pairs = self.corpora[number].pairs
        epoch, rest = divmod(count, len(pairs))
        return epoch * pairs.tgt_tokens + (self._epoch_order(number, epoch).tokens_before(rest) if rest else 0)

    def _read(self, number: int, first: int, stop: int) -> Pairs | None:
        """Return some sentences of a corpus, by how many of it were drawn before."""
        corpus, parts = self.corpora[number], []
        size = len(corpus.pairs)
        for begin, end in pairwise([first, *range((first // size + 1) * size, stop, size), stop]):
            epoch = begin // size
            pairs = self._epoch_order(number, epoch).read(begin - epoch * size, end - epoch * size)
            parts.append(Pairs(pairs.rows + corpus.first_row + epoch * self._total, pairs.src, pairs.tgt))
        return Pairs.concatenate(parts) if first < stop else None
