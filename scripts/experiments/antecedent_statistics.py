"""Statistics of attention from a pronoun to its right antecedent minus that to its wrong one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heed.evaluation.bootstrap import bootstrap_interval
from heed.evaluation.words import AttentionMap

Floats = npt.NDArray[np.float64]


def attention_difference(weights: AttentionMap, antecedent: Mapping[str, int]) -> Floats:
    """Attention from the pronoun to its right antecedent, minus that to the wrong one: "L H", from −1 to 1.

    Args:
        weights: attention to source words, "L H T S", pooled by `heed.evaluation.words.pool`.
        antecedent: the row of the "pronoun", and the source words "right" and "wrong".
    """
    row = np.asarray(weights, dtype=np.float64)[:, :, antecedent["pronoun"]]
    difference: Floats = row[..., antecedent["right"]] - row[..., antecedent["wrong"]]
    return difference


def best_head(differences: Floats) -> tuple[int, int]:
    """Return the (layer, head), from 0, with the greatest mean over the sentences of "N L H"."""
    layer, head = np.unravel_index(differences.mean(0).argmax(), differences.shape[1:])
    return int(layer), int(head)


@dataclass(frozen=True)
class Distribution:
    """Distribution of one head's differences over sentences.

    Attributes:
        number: number of sentences.
        interval: 95 % interval of the mean, by percentile bootstrap over sentences.
        quantiles: minimum, lower quartile, median, upper quartile, maximum.
        positive: share of sentences in which the right antecedent gets more attention.
    """

    number: int
    mean: float
    interval: tuple[float, float]
    quantiles: tuple[float, float, float, float, float]
    positive: float


def distribution(differences: Sequence[float] | Floats, *, seed: int = 0, resamples: int = 1000) -> Distribution:
    """Describe the differences of one head, "N"."""
    values = np.asarray(differences, dtype=np.float64)
    number = len(values)
    interval = bootstrap_interval(values, lambda sums: sums / number, seed=seed, resamples=resamples)
    smallest, lower, median, upper, largest = (float(q) for q in np.quantile(values, (0.0, 0.25, 0.5, 0.75, 1.0)))
    return Distribution(
        number=number,
        mean=float(values.mean()),
        interval=interval,
        quantiles=(smallest, lower, median, upper, largest),
        positive=float((values > 0).mean()),
    )


@dataclass(frozen=True)
class AntecedentReport:
    """Differences of the head that is best on validation sentences.

    Attributes:
        layer, head: counted from 1.
        valid: over the sentences on which the head was chosen, and so biased upwards.
        challenge: over the challenge set.
        by_head: mean difference of every layer and head on the challenge set.
    """

    layer: int
    head: int
    valid: Distribution
    challenge: Distribution
    by_head: list[list[float]]


def report(valid: Floats, challenge: Floats) -> AntecedentReport:
    """Choose the head on validation sentences and measure it on the challenge set.

    The challenge set has each scene twice, with the right and the wrong antecedent exchanged. A head that always
    prefers the first noun, the last noun or the subject has a mean of 0.

    Args:
        valid: differences "N L H".
        challenge: differences "M L H".
    """
    layer, head = best_head(valid)
    return AntecedentReport(
        layer=layer + 1,
        head=head + 1,
        valid=distribution(valid[:, layer, head]),
        challenge=distribution(challenge[:, layer, head]),
        by_head=challenge.mean(0).tolist(),
    )
