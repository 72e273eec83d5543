"""Results of evaluating a split during training."""

from dataclasses import dataclass, field
from typing import NamedTuple

from heed.evaluation.scores import Scores


class SplitResult(NamedTuple):
    """The evaluation of one split, over all processes."""

    scores: Scores
    loss: float
    """Mean negative log-likelihood in nats per target token."""
    translations: list[str]
    """In the order of the split."""


@dataclass
class SplitOutputs:
    """What one process has computed so far on its batches of a split."""

    translations: list[tuple[int, list[int]]] = field(default_factory=list)
    """(row in the split, token ids)."""
    nll: float = 0.0
    """Summed over target tokens, in nats."""
    tgt_tokens: int = 0
    decode_seconds: float = 0.0
