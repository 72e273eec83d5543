"""Where "it" looks: encoder self-attention from a pronoun to what it means, minus to what it could have meant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heed.evaluation.bootstrap import bootstrap_interval
from heed.evaluation.words import AttentionMap

Floats = npt.NDArray[np.float64]


def mass_difference(encoder_self: AttentionMap, antecedent: Mapping[str, int]) -> Floats:
    """Attention from the pronoun to its right antecedent, minus that to the wrong one: "L H", from −1 to 1.

    Args:
        encoder_self: self-attention over source words, "L H S S", pooled by `heed.evaluation.words.pool`.
        antecedent: the source words "pronoun", "right" and "wrong".
    """
    row = np.asarray(encoder_self, dtype=np.float64)[:, :, antecedent["pronoun"]]
    difference: Floats = row[..., antecedent["right"]] - row[..., antecedent["wrong"]]
    return difference


def best_head(differences: Floats) -> tuple[int, int]:
    """(layer, head), from 0, with the greatest mean over the sentences of "N L H". For validation sentences."""
    layer, head = np.unravel_index(differences.mean(0).argmax(), differences.shape[1:])
    return int(layer), int(head)


@dataclass(frozen=True)
class Distribution:
    """Differences of one head over a set of sentences."""

    number: int
    mean: float
    interval: tuple[float, float]
    """95 % of the mean, by percentile bootstrap over sentences."""
    quantiles: tuple[float, float, float, float, float]
    """Smallest, lower quartile, median, upper quartile, largest."""
    positive: float
    """Share of sentences in which the right antecedent gets more."""


def distribution(differences: Sequence[float] | Floats, *, seed: int = 0, resamples: int = 1000) -> Distribution:
    """What there is to say about the differences of one head, " N"."""
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
    """How the head that looked best on validation does on the challenge set."""

    layer: int
    head: int
    """Both counted from 1."""
    valid: Distribution
    """Of the sentences the head was chosen on: higher than it deserves."""
    challenge: Distribution
    by_head: list[list[float]]
    """Mean difference of every layer and head on the challenge set."""


def report(valid: Floats, challenge: Floats) -> AntecedentReport:
    """Choose the head on validation sentences "N L H" and measure it on others, "M L H".

    A challenge set of twins, whose right and wrong antecedents change places, gives 0 to a head that always prefers
    the first, the last or the subject.
    """
    layer, head = best_head(valid)
    return AntecedentReport(
        layer=layer + 1,
        head=head + 1,
        valid=distribution(valid[:, layer, head]),
        challenge=distribution(challenge[:, layer, head]),
        by_head=challenge.mean(0).tolist(),
    )
