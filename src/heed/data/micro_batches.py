"""Batching: which sentences are in which optimizer step and micro-batch.

An epoch is cut into steps of about ``batch_tokens`` target tokens, and a step into micro-batches that fit on a device.
The devices divide a step's micro-batches among them, so a step has the same sentences on any number of devices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, validated

IntArray = npt.NDArray[np.int64]

CPU_TOKENS = 8192
"""``device_tokens`` on a CPU, where larger micro-batches are not faster. A constant, so that all machines cut steps
into the same micro-batches: other ones change rounding and dropout masks."""


@dataclass(frozen=True)
class Step:
    """The sentence pairs of one optimizer step."""

    micro_batches: list[IntArray]
    """Indices of the pairs of each micro-batch, which is one forward and backward pass."""
    tgt_tokens: int
    """Target tokens of the whole step, including EOS, without padding."""


def shard(step: Step, rank: int, world_size: int) -> list[tuple[int, IntArray]]:
    """Return (index within the step, pairs) of the micro-batches of process ``rank``."""
    return list(enumerate(step.micro_batches))[rank::world_size]


@validated("batching.")
class Planner:
    """Plans the optimizer steps of an epoch, with the memory of one pool of sentences.

    Sentence pairs are shuffled over the whole epoch, then sorted by length within a pool to need little padding. The
    steps of a pool are shuffled again, so that lengths do not drift during the pool.

    Args:
        batch_tokens: target tokens of a step, including EOS. Steps deviate from it by at most two sentences, except
            those of an epoch's last pool, which have 0.75 to 1.5 times as many tokens.
        device_tokens: maximum of rows × (longest source + longest target) in a micro-batch. "auto": ``CPU_TOKENS`` on a
            CPU; on a GPU, as much as fits into its memory (set later by `heed.training.memory`).
        pool: sentence pairs that are sorted together. A larger pool needs less padding, but its order is less random.
        seed: seed of the order, together with the epoch.
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
        """Return the steps of an epoch. Every pair is in exactly one step of the epoch.

        Args:
            src_lengths, tgt_lengths: tokens of every pair, including EOS.
            epoch: index of the epoch.
            start: index of the first step to return.

        Raises:
            HeedError: if a single pair exceeds ``device_tokens``; raised by the call, before the first step.
        """
        self._check_lengths(src_lengths, tgt_lengths)
        steps = islice(self._plan_steps(src_lengths, tgt_lengths, epoch), start, None)
        return (self._cut_step(rows, src_lengths, tgt_lengths) for rows in steps)

    def _check_lengths(self, src_lengths: IntArray, tgt_lengths: IntArray) -> None:
        longest, pair = 0, 0
        for first in range(0, len(src_lengths), self.pool):
            lengths = src_lengths[first : first + self.pool] + tgt_lengths[first : first + self.pool]
            if lengths.max() > longest:
                longest, pair = int(lengths.max()), first + int(lengths.argmax())
        if longest > self.device_tokens:
            raise HeedError(
                f"Training pair {pair + 1}, the longest, has {src_lengths[pair]} source and {tgt_lengths[pair]} target "
                f"tokens, too many for batching.device_tokens={self.device_tokens}: set it to {longest} or more, or "
                "drop long pairs with data.cleaning.max_chars."
            )

    def _plan_steps(self, src_lengths: IntArray, tgt_lengths: IntArray, epoch: int) -> Iterator[IntArray]:
        """Yield the pairs of each step, sorted by length."""
        total = len(src_lengths)
        rng = np.random.default_rng((self.seed, epoch))
        order = RandomPermutation(total, rng)
        left_over = np.zeros(0, dtype=np.int64)
        for first in range(0, total, self.pool):
            stop = min(first + self.pool, total)
            rows = np.concatenate((left_over, order(np.arange(first, stop))))
            tokens = np.cumsum(tgt_lengths[rows])
            steps_in_pool = int(tokens[-1]) / self.batch_tokens
            if stop == total:
                count, used = max(1, round(steps_in_pool)), len(rows)
            else:
                # Leave at least one step for the next pool, in random order, so that the last pool has no small step.
                count = max(0, int(steps_in_pool) - 1)
                used = int(np.searchsorted(tokens, count * self.batch_tokens, side="right"))
            rows, left_over = rows[:used], rows[used:]
            if used:
                rows = _sort_by_length(rows, src_lengths, tgt_lengths)
                steps = _split_evenly(rows, tgt_lengths[rows], count)
                yield from (steps[number] for number in rng.permutation(len(steps)))

    def _cut_step(self, rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> Step:
        """Cut the pairs of a step into as few micro-batches of equal size as fit into ``device_tokens``."""
        src, tgt = src_lengths[rows], tgt_lengths[rows]
        # More than two micro-batches are rounded up to a multiple of four, which keeps 2 or 4 devices equally busy.
        count = -(-int((src + tgt).sum()) // self.device_tokens)
        while True:
            if count > 2:
                count += -count % 4
            parts = _split_evenly(rows, src + tgt, count)
            if all(padded_tokens(src_lengths[part], tgt_lengths[part]) <= self.device_tokens for part in parts):
                return Step(parts, int(tgt.sum()))
            count += 1


def padded_tokens(src_lengths: IntArray, tgt_lengths: IntArray) -> int:
    """Return rows × (longest source + longest target): source and target tokens of a batch, including padding."""
    return len(src_lengths) * int(src_lengths.max() + tgt_lengths.max())


def _sort_by_length(rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> IntArray:
    """Return ``rows`` in an order in which neighbours need little padding on both sides.

    The order is by the length of the longer side, then by source minus target length: ascending if the longer side is
    even and descending if it is odd, so that the difference does not jump where the longer side grows.
    """
    src, tgt = src_lengths[rows], tgt_lengths[rows]
    longer, difference = np.maximum(src, tgt), src - tgt
    return rows[np.lexsort((np.where(longer % 2 == 0, difference, -difference), longer))]


def _split_evenly(rows: IntArray, weights: IntArray, count: int) -> list[IntArray]:
    """Split ``rows`` into ``count`` consecutive parts of about equal weight, without the parts that would be empty."""
    ends = np.cumsum(weights)
    # A row belongs to the part that contains its midpoint on the scale of cumulative weights.
    part = ((2 * ends - weights) * count // (2 * ends[-1])).astype(np.int64)
    return np.split(rows, np.flatnonzero(np.diff(part)) + 1)


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
