"""How validations are compared (``select=``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

BUILT_IN = ("bleu", "chrf", "loss")
"""The metrics of every validation, in the order in which they break ties. ``metrics=`` adds others."""
MIN_BLEU = 1.0
"""Differences between smaller scores are chance: a few matching words of a model that does not translate yet."""


def sign(metric: str) -> int:
    """Return the factor that makes higher values better."""
    return -1 if metric == "loss" else 1


@dataclass(frozen=True)
class Selection:
    """Ranks validations by one metric; ties are broken by BLEU, chrF and loss, in this order.

    A validation with less than ``MIN_BLEU`` BLEU is worse than any other one; of two such, the one with less loss is
    better, if the metric is BLEU.
    """

    metric: str = "bleu"

    def key(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        """Return a sort key, higher for the better validation. Metrics missing from ``scores`` are left out."""
        first = self.deciding_metric(scores)
        values = [sign(metric) * scores[metric] for metric in dict.fromkeys((first, *BUILT_IN)) if metric in scores]
        return (float(first == self.metric), *(value if value == value else -inf for value in values))

    def deciding_metric(self, scores: Mapping[str, float]) -> str:
        """Return what decides between a validation and others that are not better than it."""
        return "loss" if self.metric == "bleu" and scores["bleu"] < MIN_BLEU else self.metric
