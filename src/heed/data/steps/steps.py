"""Batching: assign sentence pairs to optimizer steps and micro-batches.

An epoch is cut into steps of about ``batch_tokens`` target tokens, and a step into micro-batches that fit on a device.
The devices share a step's micro-batches, so a step has the same sentences on any number of devices.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from heed.data.order.order import Order
from heed.data.pairs.pairs import IntArray, Pairs
from heed.options import AtLeast0, AtLeast1, validated

CPU_TOKENS = 8192
"""``device_tokens`` on a CPU, where larger micro-batches are not faster. It is the same on all machines, because a
different value changes rounding and dropout masks."""


Step = list[IntArray]
"""An optimizer step: the indices of the pairs of each micro-batch (one forward and backward pass)."""


class Pool(NamedTuple):
    """Consecutive pairs of an order that are sorted by length together and cut into steps."""

    first: int  # position of the first pair
    stop: int  # position after the last pair
    first_step: int  # index of its first step in the order
    steps: int  # number of steps
    epoch: int = 0
    is_last: bool = False  # whether the training ends with it


def shard(step: Step, rank: int, world_size: int) -> list[tuple[int, IntArray]]:
    """Return (index within the step, indices of the pairs) of the micro-batches of process ``rank``."""
    return list(enumerate(step))[rank::world_size]


@validated("batching.")
class Planner:
    """Plans optimizer steps, using memory for one pool of sentences. conf/train.yaml explains the options.

    Sentence pairs come in random order. They are sorted by length within a pool, to reduce padding. The steps of a
    pool are then shuffled, so that lengths do not drift.

    A step has ``batch_tokens`` target tokens, including EOS, and deviates from it by at most two sentences; steps of an
    epoch's last pool have 0.75 to 1.5 times as many. The "auto" of ``device_tokens`` is set later on a GPU, by
    `heed.training.memory`.
    """

    def __init__(
        self, *, batch_tokens: AtLeast1, device_tokens: AtLeast1 | Literal["auto"], pool: AtLeast1, seed: AtLeast0
    ) -> None:
        self.auto = device_tokens == "auto"
        self.device_tokens = self.max_pair = CPU_TOKENS if device_tokens == "auto" else device_tokens
        """Most tokens of a pair. Measuring "auto" leaves it, so that samples of pairs are the same on all machines."""
        self.batch_tokens = batch_tokens
        self.pool = pool
        self.seed = seed

    def resolve_auto(self, device_tokens: int) -> None:
        """Set the value that the "auto" of ``device_tokens`` stands for on this GPU."""
        self.device_tokens = device_tokens

    def pools(self, order: Order, *, start: int = 0, growth: float = 1.0) -> Iterator[Pool]:
        """Yield the pools of an order, starting with the pool that contains step ``start``.

        A pool contains a whole number of steps, so that no step is smaller than the others. Its boundaries are computed
        from the number of tokens before a position, without planning earlier pools. ``growth``: of the target tokens by
        BPE-dropout.
        """
        step_tokens, length = self.batch_tokens / growth, order.length

        def steps_before(number: int) -> int:
            """Return the steps that end before pool ``number``, or all steps if there is no such pool."""
            if number * self.pool >= length:
                return max(1, round(order.tokens_before(int(length)) / step_tokens))
            # Leave the tokens of one step to the next pool. Otherwise the last pool could have less than one step.
            return max(0, int(order.tokens_before(number * self.pool) / step_tokens) - 1)

        def position_of(step: int, number: int) -> int:
            return int(length) if number * self.pool >= length else order.position_of(math.ceil(step * step_tokens))

        # Find the last pool with at most ``start`` steps before it. Pool 0 starts with step 0. As every pair has a
        # target token, the steps up to ``start`` + 2 have at most this many pairs.
        pairs = min(length, (start + 3) * step_tokens)
        number = bisect_right(range(1, math.ceil(pairs / self.pool)), start, key=steps_before)
        begin = steps_before(number)
        first = position_of(begin, number)
        while first < length:
            number += 1
            end = steps_before(number)
            for cut in (*order.boundaries(begin, end), end):
                if cut > begin:
                    stop = position_of(cut, number)
                    if stop > first:  # a pair can be longer than several steps
                        yield Pool(first, stop, begin, cut - begin)
                    begin, first = cut, stop

    def cut(self, pool: Pool, pairs: Pairs) -> list[Step]:
        """Return the steps of a pool: indices into its pairs; each pair is in exactly one step."""
        src_lengths, tgt_lengths = pairs.src_lengths + 1, pairs.tgt_lengths + 1  # with EOS
        rng = np.random.default_rng((self.seed, pool.epoch, pool.first_step))
        rows = _sort_by_length(rng.permutation(len(pairs)), src_lengths, tgt_lengths)
        steps = _split_evenly(rows, tgt_lengths[rows], pool.steps)
        return [self._cut_step(steps[number], src_lengths, tgt_lengths) for number in rng.permutation(len(steps))]

    def _cut_step(self, rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> Step:
        """Cut the pairs of a step into as few micro-batches of equal size as fit; one pair always does."""
        src, tgt = src_lengths[rows], tgt_lengths[rows]
        # Round up more than two micro-batches to a multiple of four, to keep 2 or 4 devices equally busy.
        count = -(-int((src + tgt).sum()) // self.device_tokens)
        while True:
            if count > 2:
                count += -count % 4
            parts = _split_evenly(rows, src + tgt, count)
            sizes = [self.padded_tokens(src_lengths[part], tgt_lengths[part]) for part in parts if len(part) > 1]
            if all(size <= self.device_tokens for size in sizes):
                return parts
            count += 1

    def padded_tokens(self, src_lengths: IntArray, tgt_lengths: IntArray) -> int:
        """Return rows × (source length + target length): the padded tokens of a micro-batch with these pairs."""
        return len(src_lengths) * int(src_lengths.max() + tgt_lengths.max())


def _sort_by_length(rows: IntArray, src_lengths: IntArray, tgt_lengths: IntArray) -> IntArray:
    """Sort ``rows`` so that neighbours need little padding on both sides.

    Sort by the length of the longer side, then by source minus target length. The second key ascends if the longer side
    is even and descends if it is odd, so that it does not jump where the longer side grows.
    """
    src, tgt = src_lengths[rows], tgt_lengths[rows]
    longer, difference = np.maximum(src, tgt), src - tgt
    return rows[np.lexsort((np.where(longer % 2 == 0, difference, -difference), longer))]


def _split_evenly(rows: IntArray, weights: IntArray, count: int) -> list[IntArray]:
    """Split ``rows`` into ``count`` consecutive parts of about equal weight; omit empty parts."""
    ends = np.cumsum(weights)
    # A row belongs to the part that contains its midpoint on the scale of cumulative weights.
    part = ((2 * ends - weights) * count // (2 * ends[-1])).astype(np.int64)
    return np.split(rows, np.flatnonzero(np.diff(part)) + 1)
