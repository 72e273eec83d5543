"""Bootstrap resampling over sentences and over training seeds (Efron and Tibshirani 1993, ch. 13).

A corpus score is a function of sums over sentences. A resample is therefore a vector of counts, one for each
sentence, and its sums are a product of this vector and the statistics of the sentences.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BLOCK_ROWS = 1_000
"""Resamples that are in memory as float64 at a time."""


def bootstrap_interval(
    values: npt.NDArray[Any],
    score: Callable[[npt.NDArray[Any]], Floats],
    *,
    resamples: int = 1000,
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of a score of sums over sentences.

    Args:
        values: Statistics of each sentence, "N" or "N K".
        score: Maps the sums of all resamples, "R" or "R K", to their scores, "R".
        resamples: Number of resamples R.
    """
    number = len(values)
    counts = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), size=resamples)
    return percentile_interval(score(counts @ values))


def percentile_interval(scores: Floats) -> tuple[float, float]:
    """Return the 95 % interval of resampled scores "R"."""
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(low), float(high)


@lru_cache(maxsize=2)
def paired_resamples(number: int, resamples: int, *, seed: int) -> npt.NDArray[np.uint8]:
    """Return how often each of ``number`` sentences occurs in each resample, "R N".

    The draws are those of ``sacrebleu --paired-bs`` with the same seed. The result is cached, so that every system is
    scored on the same resamples. Do not write to it.
    """
    rng = np.random.default_rng(seed)
    # uint8 suffices: a sentence is rarely drawn ten times, never 256 times.
    counts = np.empty((resamples, number), dtype=np.uint8)
    for start in range(0, resamples, BLOCK_ROWS):
        rows = counts[start : start + BLOCK_ROWS]
        for row, drawn in zip(rows, rng.choice(number, size=rows.shape), strict=True):
            row[:] = np.bincount(drawn, minlength=number)
    return counts


def weighted_sums(weights: npt.NDArray[np.generic], values: Floats) -> Floats:
    """Return ``weights @ values``, "R N" × "N K", converting only a block of the weights to float64 at a time."""
    starts = range(0, len(weights), BLOCK_ROWS)
    return np.concatenate([weights[start : start + BLOCK_ROWS].astype(np.float64) @ values for start in starts])


def seed_weights(rng: np.random.Generator, seeds: int, resamples: int) -> Floats:
    """Return the weight of each training seed in each resample, "R S"; rows sum to 1.

    n − 1 of n seeds are drawn, so that the variance of their mean equals that of a mean of n seeds (Rao and Wu 1988).
    """
    drawn = max(seeds - 1, 1)
    return rng.multinomial(drawn, np.full(seeds, 1 / seeds), size=resamples) / drawn
