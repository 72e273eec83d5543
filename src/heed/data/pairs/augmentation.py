"""Add noise and BPE-dropout to the training pairs, one pool at a time, in a separate process."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from heed.data.pairs.bpe_dropout import BPEDropout
from heed.data.pairs.pairs import IntArray, Limit, Pairs, id_lists, pair_lengths
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.noise import Noise, add_noise
from heed.data.text.workers import ahead, start_pool
from heed.errors import HeedError

GROWTH_PAIRS = 500  # pairs from which the growth of the number of tokens is estimated
Pool = TypeVar("Pool")
TextNoise = tuple[Noise, str, Sequence[int]] | None
"""The noise of a text, the language of its sources and their tags; None: no noise."""


class Sampler:
    """Samples noise and segmentations of pairs in a separate process, as a function of the seed and the pair alone.

    Args:
        tokenizer: a BPE tokenizer, if ``rate`` is not 0.
        rate: probability of dropping a merge, in [0, 1).
        noises: the noise of each text.
        limit: of sampled pairs, with tags, without EOS. A pair whose sample exceeds it keeps its own ids.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, noises: Sequence[TextNoise], limit: Limit) -> None:
        self.tokenizer, self.rate, self.noises, self.limit = tokenizer, rate, noises, limit
        self._process: ProcessPoolExecutor | None = None

    def growth(self, pairs: Pairs) -> float:
        """Return the target tokens of these pairs with BPE-dropout divided by those without it, counting EOS."""
        drawn = within(self.limit, segment(dropouts(self.tokenizer, self.rate), pairs, "growth"), pairs)
        return float((drawn.tgt_lengths + 1).sum() / (pairs.tgt_lengths + 1).sum())

    def draw(self, pools: Iterator[tuple[Pool, str, Pairs, IntArray]]) -> Iterator[tuple[Pool, Pairs]]:
        """Yield each pool with its sampled pairs. The next pool is sampled while this one is trained on.

        ``pools`` have their seed, their pairs, and the index of each pair's text. A killed process raises a HeedError.
        """
        self._process = self._process or start_pool(1)
        draw, submit = partial(_draw, self.tokenizer.models, self.rate, self.noises), self._process.submit
        drawing = ((pool, pairs, submit(draw, seed, pairs, texts)) for pool, seed, pairs, texts in pools)
        try:
            for pool, pairs, drawn in ahead(drawing, 1):
                yield pool, within(self.limit, drawn.result(), pairs)
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
    """Return the pairs with random segmentations, a function of the seed and the row; unchanged without dropouts."""
    if not dropout:
        return pairs
    src, tgt = dropout
    return replace(
        pairs, src=src(pairs.src, 2 * pairs.rows, seed=seed), tgt=tgt(pairs.tgt, 2 * pairs.rows + 1, seed=seed)
    )


def with_noise(noises: Sequence[TextNoise], tokenizer: Tokenizer, pairs: Pairs, texts: IntArray, seed: str) -> Pairs:
    """Return the pairs after adding the noise of their texts to their sources."""
    sources: list[list[int]] = pairs.src.to_pylist()
    for number, found in enumerate(noises):
        rows = np.flatnonzero(texts == number).tolist()
        if found is None or not rows:
            continue
        noise, lang, tags = found
        before = tokenizer.decode_src([sources[row][len(tags) :] for row in rows])
        after = add_noise(noise, before, pairs.rows[rows].tolist(), seed=seed, lang=lang)
        changed = [place for place in range(len(rows)) if after[place] != before[place]]
        for place, ids in zip(changed, tokenizer.encode_src([after[p] for p in changed], tagged=False), strict=True):
            sources[rows[place]] = [*tags, *ids] if ids else []
    return replace(pairs, src=id_lists(sources))


def within(limit: Limit, drawn: Pairs, pairs: Pairs) -> Pairs:
    """Return the drawn pairs, but the original of each one that exceeds the limit."""
    fits = (pair_lengths(drawn.src_lengths, drawn.tgt_lengths) <= limit).all(axis=1)
    if fits.all():
        return drawn
    originals = replace(pairs, src=pairs.src.cast(drawn.src.type), tgt=pairs.tgt.cast(drawn.tgt.type))
    return Pairs.concatenate([originals, drawn]).take(np.arange(len(pairs)) + len(pairs) * fits)


# ---- the separate process


@cache
def _load(models: tuple[bytes, ...], rate: float) -> tuple[Tokenizer, Sequence[BPEDropout]]:
    """Return the tokenizer and the BPE-dropout of source and target. They are built once."""
    tokenizer = Tokenizer(models, threads=1)
    return tokenizer, dropouts(tokenizer, rate)


def _draw(
    models: tuple[bytes, ...], rate: float, noises: Sequence[TextNoise], seed: str, pairs: Pairs, texts: IntArray
) -> Pairs:
    tokenizer, dropout = _load(models, rate)
    if any(noises):
        pairs = with_noise(noises, tokenizer, pairs, texts, seed)
    return segment(dropout, pairs, seed)
