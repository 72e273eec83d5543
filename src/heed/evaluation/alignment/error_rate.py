"""Alignment error rate, precision and recall against gold alignments."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.evaluation.alignment.symmetrization import Alignment
from heed.evaluation.bootstrap import bootstrap_interval

Floats = npt.NDArray[np.float64]
MatchCounts = npt.NDArray[np.int64]
"""|A ∩ S|, |A ∩ P|, |A| and |S| of an alignment A, given sure links S and possible links P: "… 4"."""
Link = tuple[int, int]


@dataclass(frozen=True)
class Gold:
    """The links (source, target) of one sentence pair in a gold alignment."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """Links that count as correct, including the sure ones."""


def to_gold(alignment: Alignment) -> Gold:
    """Return the links of an alignment "T S", all of them sure."""
    links = frozenset((int(src), int(tgt)) for tgt, src in np.argwhere(alignment))
    return Gold(sure=links, possible=links)


def match_counts(alignment: Alignment, gold: Gold) -> MatchCounts:
    """Count the matches of alignments "… T S" with a gold alignment: "… 4", summable over sentences."""
    sure, possible = (_to_array(links, alignment.shape[-2:]) for links in (gold.sure, gold.possible))
    ones = np.ones_like(alignment)
    counted = (alignment & sure, alignment & possible, alignment, ones & sure)
    return np.stack([links.sum((-2, -1), dtype=np.int64) for links in counted], axis=-1)


def aer(counts: npt.NDArray[Any]) -> Floats:
    """Return the alignment error rate 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), in [0, 1] (Och and Ney 2003).

    It is 0 if there are neither links nor sure gold links.

    Args:
        counts: `match_counts`, "… 4", of a sentence or summed over a corpus.
    """
    hit_sure, hit_possible, proposed, sure = np.moveaxis(counts, -1, 0)
    return 1 - _ratio(hit_sure + hit_possible, proposed + sure)


def precision(counts: npt.NDArray[Any]) -> Floats:
    """Return |A ∩ P| / |A|, and 1 if A is empty."""
    return _ratio(counts[..., 1], counts[..., 2])


def recall(counts: npt.NDArray[Any]) -> Floats:
    """Return |A ∩ S| / |S|, and 1 if S is empty."""
    return _ratio(counts[..., 0], counts[..., 3])


def aer_interval(
    counts: MatchCounts, *, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the corpus AER over sentences.

    Args:
        counts: `match_counts` of each sentence, "N 4".
        seed: Seed of the resampling.
        resamples: Number of resampled corpora.
        level: Confidence level.
    """
    quantiles = ((1 - level) / 2, (1 + level) / 2)
    return bootstrap_interval(counts, aer, seed=seed, resamples=resamples, quantiles=quantiles)


def _to_array(links: Iterable[Link], shape: tuple[int, ...]) -> Alignment:
    array = np.zeros(shape, dtype=np.bool_)
    for src, tgt in links:
        array[tgt, src] = True
    return array


def _ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Floats:
    """Return the quotient, and 1 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.ones(numerator.shape), where=denominator > 0)
