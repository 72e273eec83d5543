"""Whether one system is better than another, or the test set and the random seed were kind to it.

A corpus score is a function of sums over its sentences. sacreBLEU gives the summands, once for each system; every
resampled corpus is then a product of matrices. Arrays are "N K": N sentences, K sufficient statistics.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from heed.evaluation.scores import metrics

Floats = npt.NDArray[np.float64]
Statistics = npt.NDArray[np.float64]
"""Whole numbers, as floats because only these are multiplied fast."""

SEED = 12345
"""sacreBLEU's, so that p-values here are those of ``sacrebleu --paired-bs`` and ``--paired-ar``."""
PAIRED_RESAMPLES = 1_000
PAIRED_TRIALS = 10_000
"""Their defaults, too."""
ROWS_AT_ONCE = 1_000
"""Resamples that are in memory as floats at a time."""


def statistics(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> dict[str, Statistics]:
    """What `SCORES` needs of each sentence, by metric: its n-grams, counted by sacreBLEU."""
    return {
        name: np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)
        for name, metric in zip(SCORES, metrics(tgt_lang), strict=True)
    }


def bleu(sums: Statistics) -> Floats:
    """BLEU "…" of summed statistics "… 10", smoothed as sacreBLEU does (Papineni et al. 2002; Chen and Cherry 2014)."""
    hyp_length, ref_length = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2:6], sums[..., 6:10]
    unmatched = correct == 0
    # The k-th order without a match counts as 2^-k of one.
    matches = np.where(unmatched, 0.5 ** unmatched.cumsum(-1), correct)
    log_precision = np.log(matches / np.maximum(total, 1)).mean(-1)
    log_brevity = np.minimum(0, 1 - ref_length / np.maximum(hyp_length, 1))
    defined = (total > 0).all(-1) & ~unmatched.all(-1)
    return np.where(defined, 100 * np.exp(log_brevity + log_precision), 0.0)


def chrf(sums: Statistics) -> Floats:
    """chrF2 "…" of summed statistics "… 18" (Popović 2015)."""
    hyp, ref, match = np.moveaxis(sums.reshape(*sums.shape[:-1], 6, 3), -1, 0)
    present = (hyp > 0) & (ref > 0)
    orders = np.maximum(present.sum(-1), 1)
    precision = (present * match / np.maximum(hyp, 1)).sum(-1) / orders
    recall = (present * match / np.maximum(ref, 1)).sum(-1) / orders
    weighted = 4 * precision + recall
    return np.divide(500 * precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0)


Score = Callable[[Statistics], Floats]
SCORES: Mapping[str, Score] = {"BLEU": bleu, "chrF": chrf}


# ---- two systems


@dataclass(frozen=True)
class PairedTests:
    """p-values of sacreBLEU's two tests of whether two systems differ."""

    bootstrap: float
    """Paired bootstrap resampling (Koehn 2004). sacreBLEU compares the absolute difference with absolute differences
    minus their mean, which far from zero is a one-sided test: at 0.05 it errs in 10 of
    100 cases and more."""
    randomization: float
    """Approximate randomization, two-sided (Riezler and Maxwell 2005). It errs as often as it says, and so decides."""


def paired_tests(a: Statistics, b: Statistics, score: Score) -> PairedTests:
    """What ``sacrebleu --paired-bs`` and ``--paired-ar`` say of two systems, from the same random numbers.

    Identical systems get the smallest p there is: they have to be recognised before.
    """
    observed = abs(score(a.sum(0)) - score(b.sum(0)))
    weights = _resamples(len(a), PAIRED_RESAMPLES)
    resampled = np.abs(score(_weighted(weights, a)) - score(_weighted(weights, b)))
    # Where a coin says so, the systems change places.
    moved = _weighted(_coins(len(a), PAIRED_TRIALS), b - a)
    shuffled = np.abs(score(b.sum(0) - moved) - score(a.sum(0) + moved))
    return PairedTests(
        bootstrap=_share(resampled - resampled.mean() > observed), randomization=_share(shuffled > observed)
    )


# ---- two sides, each one system trained with one or several seeds


@dataclass(frozen=True)
class Sample:
    """The scores of a side's S runs: as they are, and on R test sets resampled from the one there is."""

    scores: Floats
    """" S"."""
    resampled: Floats
    """"R S". Row r is over the same sentences for all sides of one test set."""


@dataclass(frozen=True)
class Spread:
    """A side's mean score over its seeds, and the two reasons why it is not the last word."""

    mean: float
    over_sentences: tuple[float, float]
    """95 % interval: these seeds on other sentences."""
    over_seeds: float | None
    """Standard deviation: these sentences with other seeds; None where there is only one."""


@dataclass(frozen=True)
class Difference:
    """By how much the mean score of one side is above the other's. Intervals are of 95 %."""

    value: float
    interval: tuple[float, float]
    """Other sentences and other seeds."""
    over_sentences: tuple[float, float]
    """These seeds on other sentences."""
    over_seeds: tuple[float, float] | None
    """These sentences with other seeds; None where both sides have only one."""
    p: float
    """Two-sided: one minus the level at which ``interval`` would reach zero."""


def sample(runs: Sequence[Statistics], score: Score, *, resamples: int = 10_000) -> Sample:
    """Score every run on the test set and on test sets drawn from it with replacement (Koehn 2004)."""
    weights = _resamples(len(runs[0]), resamples)
    return Sample(
        scores=np.array([score(run.sum(0)) for run in runs]),
        resampled=np.stack([score(_weighted(weights, run)) for run in runs], axis=1),
    )


def spread(side: Sample) -> Spread:
    """The mean over seeds, with the spread over sentences apart from that over seeds."""
    seeds = len(side.scores)
    return Spread(
        mean=float(side.scores.mean()),
        over_sentences=_interval(side.resampled.mean(1)),
        over_seeds=float(side.scores.std(ddof=1)) if seeds > 1 else None,
    )


def difference(a: Sample, b: Sample) -> Difference:
    """Side a minus side b, resampling sentences (the same for both sides) and seeds (within each side).

    Both are resampled at once (Owen 2007, "The pigeonhole bootstrap"). Of n seeds n − 1 are drawn, so that their mean
    varies as the mean of n does (Rao and Wu 1988); even so two or three seeds say little about all others.
    """
    rng = np.random.default_rng(SEED)
    over_sentences, over_seeds, over_both = np.zeros((3, len(a.resampled)))
    for side, sign in ((a, 1), (b, -1)):
        drawn = _seed_weights(rng, len(side.scores), len(side.resampled))
        over_sentences += sign * side.resampled.mean(1)
        over_seeds += sign * (drawn @ side.scores)
        over_both += sign * (drawn * side.resampled).sum(1)
    return Difference(
        value=float(a.scores.mean() - b.scores.mean()),
        interval=_interval(over_both),
        over_sentences=_interval(over_sentences),
        over_seeds=_interval(over_seeds) if len(a.scores) + len(b.scores) > 2 else None,
        p=min(1.0, 2 * min(_share(over_both <= 0), _share(over_both >= 0))),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of several tests, adjusted so that 0.05 bounds the chance of any false discovery (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = least
    return adjusted


def wilson(right: int, total: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    z = 1.959964
    share, scale = right / total, 1 + z**2 / total
    middle = (share + z**2 / (2 * total)) / scale
    half = z * (share * (1 - share) / total + z**2 / (4 * total**2)) ** 0.5 / scale
    return max(0.0, middle - half), min(1.0, middle + half)


# ---- random numbers


@lru_cache(maxsize=2)
def _resamples(number: int, resamples: int) -> npt.NDArray[np.uint8]:
    """How often each sentence is drawn in each resample, "R N". No count exceeds 255: few do 10 in a large set."""
    rng = np.random.default_rng(SEED)
    counts = np.empty((resamples, number), dtype=np.uint8)
    for start in range(0, resamples, ROWS_AT_ONCE):
        rows = counts[start : start + ROWS_AT_ONCE]
        for row, drawn in zip(rows, rng.choice(number, size=rows.shape), strict=True):
            row[:] = np.bincount(drawn, minlength=number)
    return counts


@lru_cache(maxsize=1)
def _coins(number: int, trials: int) -> npt.NDArray[np.bool_]:
    return np.random.default_rng(SEED).integers(2, size=(trials, number), dtype=np.bool_)


def _seed_weights(rng: np.random.Generator, seeds: int, resamples: int) -> Floats:
    """The weight of each seed in each resample, "R S"; rows sum to 1."""
    drawn = max(seeds - 1, 1)
    return rng.multinomial(drawn, np.full(seeds, 1 / seeds), size=resamples) / drawn


def _weighted(weights: npt.NDArray[np.generic], values: Statistics) -> Statistics:
    """``weights @ values`` without ever having all weights as floats."""
    starts = range(0, len(weights), ROWS_AT_ONCE)
    return np.concatenate([weights[start : start + ROWS_AT_ONCE].astype(np.float64) @ values for start in starts])


def _interval(values: Floats) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _share(found: npt.NDArray[np.bool_]) -> float:
    """Never 0: what was observed counts as one of the samples."""
    return float((found.sum() + 1) / (len(found) + 1))
