"""Which of two validations is the better one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Metric = Literal["bleu", "chrf", "loss", "comet"]

SIGN = {"bleu": 1, "chrf": 1, "loss": -1, "comet": 1}
"""By which a metric is multiplied so that higher is better."""
TIE_BREAKERS: tuple[Metric, ...] = ("bleu", "chrf", "loss")


@dataclass(frozen=True)
class Selection:
    """Compares validations by one metric, and where it is equal by BLEU, chrF and the loss, in this order.

    Early in training on little data BLEU is 0.00 at one validation after the other while chrF and the loss improve.
    """

    metric: Metric = "bleu"

    def key(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        """What is higher for the better validation. A metric that was not measured does not count."""
        metrics = dict.fromkeys((self.metric, *TIE_BREAKERS))
        return tuple(SIGN[metric] * scores[metric] for metric in metrics if metric in scores)
