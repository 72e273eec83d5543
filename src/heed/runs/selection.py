"""How validations are compared (``select=``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Metric = Literal["bleu", "chrf", "loss", "comet"]

SIGN = {"bleu": 1, "chrf": 1, "loss": -1, "comet": 1}
"""The factor that makes higher better, by metric."""
TIE_BREAKERS: tuple[Metric, ...] = ("bleu", "chrf", "loss")


@dataclass(frozen=True)
class Selection:
    """Ranks validations by one metric; ties are broken by BLEU, chrF and loss, in this order.

    Ties are common early in training: on little data BLEU is 0.00 for several validations while chrF and loss improve.
    """

    metric: Metric = "bleu"

    def key(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        """Return a sort key, higher for the better validation. Metrics missing from ``scores`` are left out."""
        metrics = dict.fromkeys((self.metric, *TIE_BREAKERS))
        return tuple(SIGN[metric] * scores[metric] for metric in metrics if metric in scores)
