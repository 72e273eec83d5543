"""Which sentences meet in which optimizer step: a plan per step, never per device.

An epoch is cut into steps of about ``batch_tokens`` target tokens, and a step into micro-batches that fit a device.
Devices share out a step's micro-batches, so the same sentences meet in the same step on 1, 2 or 8 of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1

IntArray = npt.NDArray[np.int64]

CPU_TOKENS = 8192
"""Of a micro-batch on a CPU, which gains nothing by more. A constant, so that every run and every machine cuts a step
alike: other cuts mean other rounding and other dropout."""


@dataclass(frozen=True)
class Step:
    """One optimizer step."""

    micro_batches: list[IntArray]
    """Sentence numbers: the rows of one forward and backward pass each."""
    tgt_tokens: int
    """Target tokens of the whole step, EOS counted, padding not."""


def share(step: Step, rank: int, world_size: int) -> list[tuple[int, IntArray]]:
    """The micro-batches that fall to one of ``world_size`` processes, with their numbers within the step."""
    return list(enumerate(step.micro_batches))[rank::world_size]


class Planner:
    """Plans epochs in memory for one pool of sentences, whatever the size of the corpus.

    Sentences are shuffled over the whole epoch, then sorted by length within a pool, so that neighbours need little
    padding; the steps of a pool are shuffled again, so that lengths do not drift.

    Args:
        batch_tokens: target tokens of a step, EOS counted. A step comes within two sentences of it; those of an epoch's
            last pool share what is left, 0.75 to 1.5 times as much each.
        device_tokens: rows × (longest source + longest target) of a micro-batch, at most. "auto": what suits the device,
            which is ``CPU_TOKENS`` until somebody looks at the device (`heed.training.memory`).
        pool: sentences sorted together: a larger pool pads less and orders less randomly.
        seed: with the epoch, it decides the order.
    """

    def __init__(
        self, *, batch_tokens: AtLeast1, device_tokens: AtLeast1 | Literal["auto"], pool: AtLeast1, seed: AtLeast0
    ) -> None:
        self.auto = device_tokens == "auto"
        self.device_tokens = CPU_TOKENS if device_tokens == "auto" else device_tokens
        self.batch_tokens = batch_tokens
        self.pool = pool
        self.seed = seed

    def steps(self, src_lengths: IntArray, tgt_lengths: IntArray, *, epoch: int, start: int = 0) -> Iterator[Step]:
        """The steps of an epoch from number ``start`` on; every sentence is in exactly one of all.

        Args:
            src_lengths, tgt_lengths: tokens of every pair, EOS counted.

        Raises:
            HeedError: if a pair does not fit into ``device_tokens`` even alone; at once, not when its step comes.
        """
        self._refuse_too_long(src_lengths, tgt_lengths)
        selections = islice(self._selections(src_lengths, tgt_lengths, epoch), start, None)
        return (self._step(rows, src_lengths, tgt_lengths) for rows in selections)

    def _refuse_too_long(self, src_lengths: IntArray, tgt_lengths: IntArray) -> None:
        longest, pair = 0, 0
        for first in range(0, len(src_lengths), self.pool):
            lengths = src_lengths[first : first + self.pool] + tgt_lengths[first : first + self.pool]
            if lengths.max() > longest:
                longest, pair = int(lengths.max()), first + int(lengths.argmax())
        if longest > self.device_tokens:
            raise HeedError(
                f"Training pair {pair + 1}, the longest, has {src_lengths[pair]} source and {tgt_lengths[pair]} target "
                f"tokens, too many for batching.device_tokens={self.device_tokens}: set it to {longest} or more, or "
                "let cleaning drop long pairs (data.cleaning.max_chars)."
            )

    def _selections(self, src_lengths: IntArray, tgt_lengths: IntArray, epoch: int) -> Iterator[IntArray]:
        """The rows of each step, in order of length."""
        total = len(src_lengths)
        rng = np.random.default_rng((self.seed, epoch))
        order = Shuffle(total, rng)
        waiting = np.zeros(0, dtype=np.int64)
        for first in range(0, total, self.pool):
            stop = min(first + self.pool, total)
            rows = np.concatenate((waiting, order(np.arange(first, stop))))
            tokens = np.cumsum(tgt_lengths[rows])
            whole = int(tokens[-1]) / self.batch_tokens
            if stop == total:
                count, used = max(1, round(whole)), len(rows)
            else:
                # Whole steps only; the rest, at least one step's worth, waits in its random order for the next pool.
                # So the epoch's last pool never has less than a step, and none of its steps is a small one.
                count = max(0, int(whole) - 1)
                used = int(np.searchsorted(tokens, count * self.batch_tokens, side="right"))
            rows, waiting = rows[:used], rows[used:]
            if used:
                rows = _by_length(rows, src_lengths, tgt_lengths)
                selections = _cut(rows, tgt_lengths[rows], count)
                yield from (selections[number] for number in rng.permutation(len(selections)))

    def _step(self, rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> Step:
        src, tgt = src_lengths[rows], tgt_lengths[rows]
        # Few equal parts that fit; beyond two a multiple of four, which keeps 2 or 4 devices equally busy.
        count = -(-int((src + tgt).sum()) // self.device_tokens)
        while True:
            if count > 2:
                count += -count % 4
            parts = _cut(rows, src + tgt, count)
            if all(padded_tokens(src_lengths[part], tgt_lengths[part]) <= self.device_tokens for part in parts):
                return Step(parts, int(tgt.sum()))
            count += 1


def padded_tokens(src_lengths: IntArray, tgt_lengths: IntArray) -> int:
    """The size of the two rectangles that hold these pairs, padding included."""
    return len(src_lengths) * int(src_lengths.max() + tgt_lengths.max())


def _by_length(rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> IntArray:
    """``rows`` in an order in which neighbours need little padding on either side.

    By the longer side; where it is equal, source minus target rises under even lengths and falls under odd ones, so
    that it does not jump where the longer side grows. Measured: half the padding of sorting by target, then source.
    """
    src, tgt = src_lengths[rows], tgt_lengths[rows]
    longer, tilt = np.maximum(src, tgt), src - tgt
    return rows[np.lexsort((np.where(longer % 2 == 0, tilt, -tilt), longer))]


def _cut(rows: IntArray, weights: IntArray, count: int) -> list[IntArray]:
    """``rows`` in ``count`` consecutive parts of about equal weight; fewer where some would be empty."""
    ends = np.cumsum(weights)
    # A row belongs to the part in which its middle lies.
    part = ((2 * ends - weights) * count // (2 * ends[-1])).astype(np.int64)
    return np.split(rows, np.flatnonzero(np.diff(part)) + 1)


class Shuffle:
    """A pseudo-random permutation of 0 .. size - 1, computed where it is asked for instead of stored.

    A Feistel network (Luby & Rackoff 1988) permutes the next power of four; values beyond the end are permuted again
    until they fall inside (cycle walking: Black & Rogaway 2002, §3).
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size = size
        # One key per round. Four rounds, enough in theory, are visibly uneven below a hundred.
        self.keys = rng.integers(2**32, size=6, dtype=np.uint64)
        self.half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self.mask = np.uint64((1 << int(self.half)) - 1)

    def __call__(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What stands at these positions."""
        values = self._permute(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(values >= self.size)):
            values[outside] = self._permute(values[outside])
        return values.astype(np.int64)

    def _permute(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self.half, values & self.mask
        for key in self.keys:
            # The finaliser of MurmurHash3 spreads the key and one half over all bits.
            mixed = (right ^ key) * np.uint64(0xFF51AFD7ED558CCD)
            mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(33))) & self.mask)
        return (left << self.half) | right
