"""Which sentences meet in which optimizer step: a plan per step, never per device.

An epoch is cut into steps of about ``batch_tokens`` target tokens, and a step into micro-batches that fit a device.
Devices share out a step's micro-batches, so the same sentences meet in the same step on 1, 2 or 8 of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError

IntArray = npt.NDArray[np.integer]


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
        batch_tokens: target tokens of a step, EOS counted; a step comes within a sentence of it.
        device_tokens: rows × (longest source + longest target) of a micro-batch, at most.
        pool: sentences sorted together: a larger pool pads less and orders less randomly.
        seed: with the epoch, it decides the order.
    """

    def __init__(self, *, batch_tokens: int, device_tokens: int, pool: int, seed: int) -> None:
        for name, value in (("batch_tokens", batch_tokens), ("device_tokens", device_tokens), ("pool", pool)):
            if value < 1:
                raise HeedError(f"batching.{name}={value} must be at least 1.")
        self.batch_tokens = batch_tokens
        self.device_tokens = device_tokens
        self.pool = pool
        self.seed = seed

    def steps(
        self, src_lengths: IntArray, tgt_lengths: IntArray, *, epoch: int, start: int = 0
    ) -> Iterator[Step]:
        """The steps of an epoch from number ``start`` on; every sentence is in exactly one of all.

        Args:
            src_lengths, tgt_lengths: tokens of every pair, EOS counted.

        Raises:
            HeedError: if a pair does not fit into ``device_tokens`` even alone.
        """
        return islice(self._steps(src_lengths, tgt_lengths, epoch), start, None)

    def _steps(self, src_lengths: IntArray, tgt_lengths: IntArray, epoch: int) -> Iterator[Step]:
        total = len(src_lengths)
        rng = np.random.default_rng((self.seed, epoch))
        order = Shuffle(total, key=rng.integers(2**32, size=4, dtype=np.uint64))
        waiting = np.zeros(0, dtype=np.int64)
        for first in range(0, total, self.pool):
            last = first + self.pool >= total
            rows = np.concatenate((waiting, order(np.arange(first, min(first + self.pool, total)))))
            tokens = np.cumsum(tgt_lengths[rows])
            # Whole steps only: what is left over waits, in its random order, for the next pool.
            count = int(tokens[-1]) // self.batch_tokens
            if last:
                count, used = max(1, round(tokens[-1] / self.batch_tokens)), len(rows)
            else:
                used = int(np.searchsorted(tokens, count * self.batch_tokens, side="right"))
            rows, waiting = rows[:used], rows[used:]
            if not used:
                continue
            by_length = rows[np.lexsort((src_lengths[rows], tgt_lengths[rows]))]
            parts = _cut(by_length, tgt_lengths[by_length], count)
            for number in rng.permutation(len(parts)):
                yield self._step(parts[number], src_lengths, tgt_lengths)

    def _step(self, rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> Step:
        src, tgt = src_lengths[rows], tgt_lengths[rows]
        widest = int(np.argmax(src + tgt))
        if src[widest] + tgt[widest] > self.device_tokens:
            raise HeedError(
                f"Training pair {rows[widest] + 1} has {src[widest]} source and {tgt[widest]} target tokens, which do not "
                f"fit into batching.device_tokens={self.device_tokens}: set it to {src[widest] + tgt[widest]} or more, "
                "or let cleaning drop long pairs (data.cleaning.max_chars)."
            )
        # As few equal parts as fit: equal ones keep several devices equally busy.
        count = -(-cells(src, tgt) // self.device_tokens)
        while True:
            parts = _cut(rows, src + tgt, count)
            if all(cells(src_lengths[part], tgt_lengths[part]) <= self.device_tokens for part in parts):
                return Step(parts, int(tgt.sum()))
            count += 1


def cells(src_lengths: IntArray, tgt_lengths: IntArray) -> int:
    """The size of the two rectangles that hold these pairs, padding included."""
    return len(src_lengths) * int(src_lengths.max() + tgt_lengths.max())


def _cut(rows: IntArray, weights: IntArray, count: int) -> list[IntArray]:
    """``rows`` in ``count`` consecutive parts of about equal weight; fewer where some would be empty."""
    ends = np.cumsum(weights)
    # A row belongs to the part in which its middle lies.
    part = ((2 * ends - weights) * count // (2 * ends[-1])).astype(np.int64)
    return np.split(rows, np.flatnonzero(np.diff(part)) + 1)


class Shuffle:
    """A pseudo-random permutation of 0 .. size - 1, computed where it is asked for instead of stored.

    A Feistel network of four rounds (Luby & Rackoff 1988) permutes the next power of four; values beyond the end are
    permuted again until they fall inside (cycle walking: Black & Rogaway 2002, §3).
    """

    def __init__(self, size: int, *, key: npt.NDArray[np.uint64]) -> None:
        self.size = size
        self.key = key
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
        for key in self.key:
            # The finaliser of MurmurHash3 spreads the key and one half over all bits.
            mixed = (right ^ key) * np.uint64(0xFF51AFD7ED558CCD)
            mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(33))) & self.mask)
        return (left << self.half) | right
