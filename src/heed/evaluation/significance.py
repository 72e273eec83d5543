"""Significance tests and confidence intervals for the scores of translation systems.

A corpus score is a function of sums over its sentences. sacreBLEU computes the summands once per system, and scoring
all resampled corpora is a matrix product. Unlike sacreBLEU's PairedTest, this module also resamples seeds. Arrays are
"N K": N sentences, K sufficient statistics.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.compat import sacrebleu_sentence_statistics
from heed.evaluation.scores import sacrebleu_metrics, spaceless_scripts, usual_tokenizer

Floats = npt.NDArray[np.float64]
Statistics = Floats
"""Integer counts, stored as float64 because BLAS multiplies only floating-point matrices."""
SEED = 12345
"""sacreBLEU's default, so that p-values agree with ``sacrebleu --paired-ar``."""
PAIRED_TRIALS = 10_000  # sacreBLEU's default
BLOCK_ROWS = 1_000  # resamples held as float64 at a time


def sentence_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str
) -> dict[str, Statistics]:
    """Return the sufficient statistics of each sentence for every metric in `TESTED`: sacreBLEU's n-gram counts."""
    tokenizer = usual_tokenizer(tgt_lang, spaceless_scripts(references))
    return {
        name: np.array(sacrebleu_sentence_statistics(metric, hypotheses, references), dtype=np.float64)
        for name, metric in zip(TESTED, sacrebleu_metrics(tokenizer), strict=True)
    }


def bleu_of_sums(sums: Statistics) -> Floats:
    """Compute BLEU "…" from summed statistics "… 10" (Papineni et al. 2002).

    Smoothing is sacreBLEU's default: the k-th n-gram order without a match counts as 2^-k matches (Chen and Cherry
    2014).
    """
    hyp_length, ref_length = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2:6], sums[..., 6:10]
    unmatched = correct == 0
    matches = np.where(unmatched, 0.5 ** unmatched.cumsum(-1), correct)
    log_precision = np.log(matches / np.maximum(total, 1)).mean(-1)
    log_brevity = np.minimum(0, 1 - ref_length / np.maximum(hyp_length, 1))
    defined = (total > 0).all(-1) & ~unmatched.all(-1)
    return np.where(defined, 100 * np.exp(log_brevity + log_precision), 0.0)


def chrf_of_sums(sums: Statistics) -> Floats:
    """Compute chrF2 "…" from summed statistics "… 18" (Popović 2015)."""
    hyp, ref, match = np.moveaxis(sums.reshape(*sums.shape[:-1], 6, 3), -1, 0)
    present = (hyp > 0) & (ref > 0)
    orders = np.maximum(present.sum(-1), 1)
    precision = (present * match / np.maximum(hyp, 1)).sum(-1) / orders
    recall = (present * match / np.maximum(ref, 1)).sum(-1) / orders
    weighted = 4 * precision + recall
    return np.divide(500 * precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0)


MetricFunction = Callable[[Statistics], Floats]
TESTED: Mapping[str, MetricFunction] = {"BLEU": bleu_of_sums, "chrF": chrf_of_sums}


# ---- bootstrap resampling over sentences and over training seeds (Efron and Tibshirani 1993, ch. 13)


def bootstrap_interval(
    values: npt.NDArray[Any], score: Callable[[npt.NDArray[Any]], Floats], *, resamples: int = 1_000
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of a score over sentences.

    Args:
        values: statistics of each sentence, "N" or "N K".
        score: maps the sums of all resamples, "R" or "R K", to their scores, "R".
    """
    number = len(values)
    counts = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), size=resamples)
    return percentile_interval(score(counts @ values))


def percentile_interval(scores: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of resampled scores "R"."""
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(low), float(high)


@lru_cache(maxsize=2)
def paired_resamples(number: int, resamples: int, *, seed: int) -> npt.NDArray[np.uint8]:
    """Return how often each of ``number`` sentences occurs in each resample, "R N".

    The result is cached and shared by all systems, so do not write to it.
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

    Draw n − 1 of n seeds, so that their mean has the same variance as a mean of n seeds (Rao and Wu 1988).
    """
    drawn = max(seeds - 1, 1)
    return rng.multinomial(drawn, np.full(seeds, 1 / seeds), size=resamples) / drawn


# ---- two systems


def approximate_randomization(a: Statistics, b: Statistics, metric: MetricFunction) -> float:
    """Compute the p-value of ``sacrebleu --paired-ar``, with the same random numbers (Riezler and Maxwell 2005).

    The test is two-sided. Identical systems get the smallest possible p-value, so check for them first.
    """
    observed = abs(metric(a.sum(0)) - metric(b.sum(0)))
    # Where a coin is 1, the two systems are swapped on that sentence.
    swapped = weighted_sums(_coins(len(a), PAIRED_TRIALS), b - a)
    shuffled = np.abs(metric(b.sum(0) - swapped) - metric(a.sum(0) + swapped))
    return _p_value(shuffled > observed)


@lru_cache(maxsize=1)
def _coins(number: int, trials: int) -> npt.NDArray[np.bool_]:
    """Return fair coins, "trials number", cached and shared by all pairs of systems."""
    return np.random.default_rng(SEED).integers(2, size=(trials, number), dtype=np.bool_)


# ---- two sides, each one system trained with one or several seeds


@dataclass(frozen=True)
class Sample:
    """The scores of a side's S runs on the test set and on R resampled test sets."""

    scores: Floats  # " S"
    resampled: Floats  # "R S". Row r uses the same sentences for all sides of one test set.


@dataclass(frozen=True)
class Spread:
    """A side's mean score over its seeds, with its uncertainty over sentences and over seeds."""

    mean: float
    over_sentences: tuple[float, float]  # 95 % interval over sentences, with the seeds fixed
    over_seeds: float | None  # standard deviation over seeds, with the sentences fixed; None with one seed


@dataclass(frozen=True)
class Difference:
    """The difference between the mean scores of two sides, with 95 % intervals."""

    value: float
    interval: tuple[float, float]  # over sentences and seeds
    over_sentences: tuple[float, float]  # over sentences, with the seeds fixed
    over_seeds: tuple[float, float] | None  # over seeds, with the sentences fixed; None if both sides have one seed
    p: float  # two-sided: one minus the largest level at which ``interval`` excludes zero


def resample(runs: Sequence[Statistics], metric: MetricFunction, *, resamples: int = 10_000) -> Sample:
    """Score every run on the test set, and on test sets drawn from it with replacement (Koehn 2004)."""
    weights = paired_resamples(len(runs[0]), resamples, seed=SEED)
    return Sample(
        scores=np.array([metric(run.sum(0)) for run in runs]),
        resampled=np.stack([metric(weighted_sums(weights, run)) for run in runs], axis=1),
    )


def spread(side: Sample) -> Spread:
    """Return the mean over seeds with its interval over sentences and its standard deviation over seeds."""
    seeds = len(side.scores)
    return Spread(
        mean=float(side.scores.mean()),
        over_sentences=percentile_interval(side.resampled.mean(1)),
        over_seeds=float(side.scores.std(ddof=1)) if seeds > 1 else None,
    )


def difference(a: Sample, b: Sample) -> Difference:
    """Return side a minus side b, resampling sentences (the same for both sides) and seeds (within each side).

    Sentences and seeds are resampled together (Owen 2007, "The pigeonhole bootstrap"), seeds by `seed_weights`. The
    variance over two or three seeds is only a rough estimate.
    """
    rng = np.random.default_rng(SEED)
    over_sentences, over_seeds, over_both = np.zeros((3, len(a.resampled)))
    for side, sign in ((a, 1), (b, -1)):
        weights = seed_weights(rng, len(side.scores), len(side.resampled))
        over_sentences += sign * side.resampled.mean(1)
        over_seeds += sign * (weights @ side.scores)
        over_both += sign * (weights * side.resampled).sum(1)
    return Difference(
        value=float(a.scores.mean() - b.scores.mean()),
        interval=percentile_interval(over_both),
        over_sentences=percentile_interval(over_sentences),
        over_seeds=percentile_interval(over_seeds) if len(a.scores) + len(b.scores) > 2 else None,
        p=min(1.0, 2 * min(_p_value(over_both <= 0), _p_value(over_both >= 0))),
    )


# ---- p-values and proportions


def _p_value(extreme: npt.NDArray[np.bool_]) -> float:
    """Return the fraction of samples at least as extreme as the observation, including the observation itself."""
    return float((extreme.sum() + 1) / (len(extreme) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several tests, so that 0.05 bounds the family-wise error rate (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.arange(len(order), 0, -1) * np.asarray(p_values, dtype=np.float64)[order]
    return np.maximum.accumulate(scaled.clip(max=1))[order.argsort()].tolist()


def wilson(successes: int, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a proportion (Wilson 1927)."""
    z = 1.959964
    proportion, scale = successes / total, 1 + z**2 / total
    middle = (proportion + z**2 / (2 * total)) / scale
    half = z * (proportion * (1 - proportion) / total + z**2 / (4 * total**2)) ** 0.5 / scale
    return max(0.0, middle - half), min(1.0, middle + half)
