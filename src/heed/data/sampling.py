"""BPE-dropout of the training pairs, pool by pool, in a process beside the training."""

import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Protocol, TypeVar

from heed.data.bpe_dropout import BPEDropout
from heed.data.preparation.workers import end_with_parent
from heed.data.store import Pairs
from heed.data.tokenizer import Tokenizer

AHEAD = 1
"""Pools that are drawn before they are needed."""

GROWTH_PAIRS = 500
"""Pairs from which the growth of the number of tokens is estimated."""

_dropout: tuple[BPEDropout, BPEDropout] | None = None
"""In the process beside the training: the BPE-dropout of source and target."""


class Seeded(Protocol):
    """What identifies a pool."""

    @property
    def seed(self) -> str:
        """Seed of the random numbers of the pool."""


Place = TypeVar("Place", bound=Seeded)


class Sampler:
    """Draws random segmentations of pairs, as a function of the seed and the pair, in a process of its own.

    Args:
        tokenizer: a BPE tokenizer.
        rate: probability of dropping a merge, in [0, 1).
    """

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        self.tokenizer, self.rate = tokenizer, rate
        self._process: ProcessPoolExecutor | None = None

    def growth(self, pairs: Pairs) -> float:
        """Return how many times as many target tokens, with EOS, these pairs have when they are segmented at random."""
        drawn = segment(self.tokenizer.dropout(self.rate), pairs, "growth")
        return (len(drawn.tgt.values) + len(drawn)) / (len(pairs.tgt.values) + len(pairs))

    def draw(self, pools: Iterator[tuple[Place, Pairs]]) -> Iterator[tuple[Place, Pairs]]:
        """Yield pools with random segmentations. One is drawn while the one before it is trained on.

        Args:
            pools: what identifies each pool, and its pairs.
        """
        waiting: deque[tuple[Place, Future[Pairs]]] = deque()
        for place, pairs in pools:
            waiting.append((place, self._start().submit(_segment, pairs, place.seed)))
            if len(waiting) > AHEAD:
                place, drawn = waiting.popleft()
                yield place, drawn.result()
        for place, drawn in waiting:
            yield place, drawn.result()

    def _start(self) -> ProcessPoolExecutor:
        if self._process is None:
            # "spawn", because a fork of a process with threads (torch has some) may hang.
            self._process = ProcessPoolExecutor(
                1, get_context("spawn"), _start_process, (self.tokenizer.models, self.rate)
            )
        return self._process


def segment(dropout: tuple[BPEDropout, BPEDropout], pairs: Pairs, seed: str) -> Pairs:
    """Return the pairs with random segmentations.

    Args:
        dropout: of source and target.
        seed: of the random numbers, together with the row of each pair.
    """
    src, tgt = dropout
    return Pairs(pairs.rows, src(pairs.src, 2 * pairs.rows, seed=seed), tgt(pairs.tgt, 2 * pairs.rows + 1, seed=seed))


def _start_process(models: tuple[bytes, bytes | None], rate: float) -> None:
    global _dropout
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the training ends this one
    threading.Thread(target=end_with_parent, daemon=True).start()
    _dropout = Tokenizer(*models).dropout(rate)


def _segment(pairs: Pairs, seed: str) -> Pairs:
    assert _dropout is not None
    return segment(_dropout, pairs, seed)
