"""Add noise and BPE-dropout to the training pairs, one pool at a time, in a separate process."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from heed.data.bpe_dropout import BPEDropout
from heed.data.noise import Noise, add_noise
from heed.data.pairs import IntArray, Pairs, id_lists
from heed.data.preparation.workers import ahead, start_pool
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError

GROWTH_PAIRS = 500
"""Pairs from which the growth of the number of tokens is estimated."""

Pool = TypeVar("Pool")
ViewNoise = tuple[Noise, str] | None
"""The noise of a view and the language of its sources; None: no noise."""


class Sampler:
    """Samples noise and segmentations of pairs in a separate process, as a function of the seed and the pair alone.

    Args:
        tokenizer: a BPE tokenizer, if ``rate`` is not 0.
        rate: probability of dropping a merge, in [0, 1).
        noises: the noise of each view of the pairs.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, noises: Sequence[ViewNoise]) -> None:
        self.tokenizer, self.rate, self.noises = tokenizer, rate, noises
        self._process: ProcessPoolExecutor | None = None

    def growth(self, pairs: Pairs) -> float:
        """Return the target tokens of these pairs with BPE-dropout divided by those without it, counting EOS."""
        drawn = segment(dropouts(self.tokenizer, self.rate), pairs, "growth")
        return float((drawn.tgt_lengths + 1).sum() / (pairs.tgt_lengths + 1).sum())

    def draw(self, pools: Iterator[tuple[Pool, str, Pairs, IntArray]]) -> Iterator[tuple[Pool, Pairs]]:
        """Yield each pool with its sampled pairs. The next pool is sampled while this one is trained on.

        Args:
            pools: each pool with its seed, its pairs, and the index of the view of each pair.

        Raises:
            HeedError: if the process was killed.
        """
        self._process = self._process or start_pool(1)
        draw, submit = partial(_draw, self.tokenizer.models, self.rate, self.noises), self._process.submit
        drawing = ((pool, submit(draw, seed, pairs, views)) for pool, seed, pairs, views in pools)
        try:
            for pool, drawn in ahead(drawing, 1):
                yield pool, drawn.result()
        except BrokenProcessPool as error:
            raise HeedError(
                "The process that draws noise and random segmentations was killed, probably for lack of memory. "
                "Start a new run from the last checkpoint (ckpt_path=FILE) with a smaller batching.pool, or without "
                "tokenizer.bpe_dropout and data.noise."
            ) from error

    def close(self) -> None:
        """End the process, if there is one. `draw` starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.shutdown(wait=False, cancel_futures=True)


def dropouts(tokenizer: Tokenizer, rate: float) -> Sequence[BPEDropout]:
    """Return the BPE-dropout of source and target, or an empty sequence if the rate is 0."""
    if not rate:
        return ()
    src, tgt = tokenizer.processors
    dropout = BPEDropout(src, rate=rate)
    return dropout, dropout if tokenizer.joint else BPEDropout(tgt, rate=rate)


def segment(dropout: Sequence[BPEDropout], pairs: Pairs, seed: str) -> Pairs:
    """Return the pairs with random segmentations.

    Args:
        dropout: the BPE-dropout of source and target. If it is empty, the pairs are returned unchanged.
        seed: determines the segmentation, together with the row of each pair.
    """
    if not dropout:
        return pairs
    src, tgt = dropout
    return replace(
        pairs, src=src(pairs.src, 2 * pairs.rows, seed=seed), tgt=tgt(pairs.tgt, 2 * pairs.rows + 1, seed=seed)
    )


def with_noise(noises: Sequence[ViewNoise], tokenizer: Tokenizer, pairs: Pairs, views: IntArray, seed: str) -> Pairs:
    """Return the pairs after adding the noise of their views to their sources."""
    sources: list[list[int]] = pairs.src.to_pylist()
    for number, found in enumerate(noises):
        rows = np.flatnonzero(views == number).tolist()
        if found is None or not rows:
            continue
        noise, lang = found
        before = tokenizer.decode_src([sources[row] for row in rows])
        after = add_noise(noise, before, pairs.rows[rows].tolist(), seed=seed, lang=lang)
        changed = [place for place in range(len(rows)) if after[place] != before[place]]
        for place, ids in zip(changed, tokenizer.encode_src([after[p] for p in changed], tagged=False), strict=True):
            sources[rows[place]] = ids
    return replace(pairs, src=id_lists(sources))


# ---- the separate process


@cache
def _load(models: tuple[bytes, ...], rate: float) -> tuple[Tokenizer, Sequence[BPEDropout]]:
    """Return the tokenizer and the BPE-dropout of source and target. They are built once."""
    tokenizer = Tokenizer(models, threads=1)
    return tokenizer, dropouts(tokenizer, rate)


def _draw(
    models: tuple[bytes, ...], rate: float, noises: Sequence[ViewNoise], seed: str, pairs: Pairs, views: IntArray
) -> Pairs:
    tokenizer, dropout = _load(models, rate)
    if any(noises):
        pairs = with_noise(noises, tokenizer, pairs, views, seed)
    return segment(dropout, pairs, seed)
