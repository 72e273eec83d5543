"""BPE-dropout of the training pairs, pool by pool, in a process beside the training."""

import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from heed.data.bpe_dropout import BPEDropout
from heed.data.preparation.workers import end_with_parent
from heed.data.ragged import Ragged
from heed.data.store import Pairs
from heed.data.tokenizer import Tokenizer

Place = TypeVar("Place")

AHEAD = 1
"""Pools that are drawn before they are needed."""

GROWTH_PAIRS = 500
"""Pairs from which the growth of the number of tokens is estimated."""

_dropout: "tuple[BPEDropout, BPEDropout] | None" = None
"""In the process beside the training: the BPE-dropout of source and target."""


class Sampler:
    """Draws random segmentations of pairs, as a function of the seed and the pair.

    Args:
        tokenizer: a BPE tokenizer.
        rate: probability of dropping a merge, in [0, 1).
    """

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        self.tokenizer, self.rate = tokenizer, rate

    def growth(self, pairs: Pairs) -> float:
        """Return how many times as many target tokens, with EOS, these pairs have when they are segmented at random."""
        if not len(pairs):
            return 1.0
        drawn = segment(self.tokenizer.dropout(self.rate), pairs, "growth")
        return (len(drawn.tgt.values) + len(drawn)) / (len(pairs.tgt.values) + len(pairs))

    def draw(self, pools: "Iterator[tuple[Place, Pairs, str]]") -> "Iterator[tuple[Place, Pairs]]":
        """Yield pools with random segmentations. One is drawn in another process while the one before is trained on.

        Args:
            pools: what identifies each pool, its pairs and the seed.
        """
        # "spawn", because a fork of a process with threads (torch has some) may hang.
        context = get_context("spawn")
        waiting: deque[tuple[Place, Future[Pairs]]] = deque()
        with ProcessPoolExecutor(1, context, _start, (self.tokenizer.models, self.rate)) as executor:
            try:
                for place, pairs, seed in pools:
                    waiting.append((place, executor.submit(_segment, pairs, seed)))
                    if len(waiting) > AHEAD:
                        place, future = waiting.popleft()
                        yield place, future.result()
                while waiting:
                    place, future = waiting.popleft()
                    yield place, future.result()
            finally:
                executor.shutdown(wait=False, cancel_futures=True)


def segment(dropout: "tuple[BPEDropout, BPEDropout]", pairs: Pairs, seed: str) -> Pairs:
    """Return the pairs with random segmentations.

    Args:
        dropout: of source and target.
        seed: of the random numbers, together with the row of each pair.
    """
    # One call for both sides: a joint BPE-dropout then remembers the segmentations of both.
    sides: list[Ragged] = []
    for side, (ids, one) in enumerate(zip((pairs.src, pairs.tgt), dropout, strict=True)):
        sides.append(one(ids, 2 * pairs.rows + side, seed=seed))
    return Pairs(pairs.rows, *sides)


def _start(models: tuple[bytes, bytes | None], rate: float) -> None:
    global _dropout
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the training ends this one
    threading.Thread(target=end_with_parent, daemon=True).start()
    _dropout = Tokenizer(*models).dropout(rate)


def _segment(pairs: Pairs, seed: str) -> Pairs:
    assert _dropout is not None
    return segment(_dropout, pairs, seed)
