"""Noise and BPE-dropout of the training pairs, pool by pool, in a process beside the training."""

import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol, TypeVar

import numpy as np

from heed.data.bpe_dropout import BPEDropout
from heed.data.noise import Noise, add_noise
from heed.data.pairs import IntArray, Pairs, id_lists
from heed.data.preparation.workers import end_with_parent
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError

AHEAD = 1
"""Pools that are drawn before they are needed."""

GROWTH_PAIRS = 500
"""Pairs from which the growth of the number of tokens is estimated."""


class Seeded(Protocol):
    """What identifies a pool."""

    @property
    def seed(self) -> str:
        """Seed of the random numbers of the pool."""


Place = TypeVar("Place", bound=Seeded)


class Sampler:
    """Draws noise and random segmentations of pairs, as a function of the seed and the pair, in a process of its own.

    Args:
        tokenizer: a BPE tokenizer, if ``rate`` is not 0.
        rate: probability of dropping a merge, in [0, 1).
        noises: the noise of each corpus; None: no noise.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, noises: Sequence[Noise | None] = ()) -> None:
        self.tokenizer, self.rate, self.noises = tokenizer, rate, noises
        self._process: ProcessPoolExecutor | None = None

    def growth(self, pairs: Pairs) -> float:
        """Return how many times as many target tokens, with EOS, these pairs have when they are segmented at random."""
        if not self.rate:
            return 1.0
        drawn = segment(self.tokenizer.dropout(self.rate), pairs, "growth")
        return (drawn.tgt_lengths.sum() + len(drawn)) / (pairs.tgt_lengths.sum() + len(pairs))

    def draw(self, pools: Iterator[tuple[Place, Pairs, IntArray]]) -> Iterator[tuple[Place, Pairs]]:
        """Yield pools as they are drawn. One is drawn while the one before it is trained on.

        Args:
            pools: what identifies each pool, its pairs, and the corpus of each pair.

        Raises:
            HeedError: if the process was killed.
        """
        waiting: deque[tuple[Place, Future[Pairs]]] = deque()
        try:
            for place, pairs, corpora in pools:
                waiting.append((place, self._start().submit(_draw, pairs, corpora, place.seed)))
                if len(waiting) > AHEAD:
                    place, drawn = waiting.popleft()
                    yield place, drawn.result()
            for place, drawn in waiting:
                yield place, drawn.result()
        except BrokenProcessPool as error:
            raise HeedError(
                "The process that draws noise and random segmentations was killed, probably for lack of memory: resume "
                "the run with a smaller batching.pool, or start one with tokenizer.bpe_dropout=0 data.noise=null."
            ) from error

    def close(self) -> None:
        """End the process, if there is one. What is drawn later starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        if self._process is None:
            # "spawn", because a fork of a process with threads (torch has some) may hang.
            self._process = ProcessPoolExecutor(
                1, get_context("spawn"), _start_process, (self.tokenizer.models, self.rate, tuple(self.noises))
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


def with_noise(
    noises: Sequence[Noise | None], tokenizer: Tokenizer, pairs: Pairs, corpora: IntArray, seed: str
) -> Pairs:
    """Return the pairs with the noise of their corpora in their sources."""
    sources: list[list[int]] = pairs.src.to_pylist()
    for number, noise in enumerate(noises):
        rows = np.flatnonzero(corpora == number).tolist()
        if noise is None or not rows:
            continue
        sentences = tokenizer.decode_src([sources[row] for row in rows])
        changed = add_noise(noise, sentences, pairs.rows[rows].tolist(), seed=seed)
        for row, before, after, ids in zip(
            rows, sentences, changed, tokenizer.encode_src(changed, tagged=False), strict=True
        ):
            if after != before:
                sources[row] = ids
    return Pairs(pairs.rows, id_lists(sources), pairs.tgt)


@dataclass(frozen=True)
class _State:
    """What the process beside the training draws with."""

    tokenizer: Tokenizer
    dropout: tuple[BPEDropout, BPEDropout] | None
    noises: Sequence[Noise | None]


_state: _State | None = None


def _start_process(models: tuple[bytes, bytes | None], rate: float, noises: Sequence[Noise | None]) -> None:
    global _state
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the training ends this one
    threading.Thread(target=end_with_parent, daemon=True).start()
    tokenizer = Tokenizer(*models, threads=1)
    _state = _State(tokenizer, tokenizer.dropout(rate) if rate else None, noises)


def _draw(pairs: Pairs, corpora: IntArray, seed: str) -> Pairs:
    assert _state is not None
    if any(_state.noises):
        pairs = with_noise(_state.noises, _state.tokenizer, pairs, corpora, seed)
    return pairs if _state.dropout is None else segment(_state.dropout, pairs, seed)
