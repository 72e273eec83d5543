"""Scheduled sampling (Bengio et al. 2015, §2.4): functions from the optimizer step, counted from 0, to the probability
that a decoder input is the gold token."""

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from heed.errors import HeedError
from heed.options import AtLeast1, Probability, UnitInterval, validated


@validated("module.teacher_forcing.")
@dataclass(frozen=True, kw_only=True)
class LinearDecay:
    """From 1 to ``floor`` at ``steps``, then ``floor``: max(floor, 1 − (1 − floor) · step / steps)."""

    floor: Probability
    steps: AtLeast1 | None

    def __post_init__(self) -> None:
        if self.steps is None:
            raise HeedError(
                "module/teacher_forcing=linear needs the step at which it ends: set module.teacher_forcing.steps, or "
                "trainer.max_steps."
            )

    def __call__(self, step: int) -> float:
        assert self.steps is not None
        return max(self.floor, 1 - (1 - self.floor) * step / self.steps)


@validated("module.teacher_forcing.")
@dataclass(frozen=True, kw_only=True)
class ExponentialDecay:
    """k^step."""

    k: UnitInterval

    def __call__(self, step: int) -> float:
        return float(self.k**step)


@validated("module.teacher_forcing.")
@dataclass(frozen=True, kw_only=True)
class InverseSigmoidDecay:
    """k / (k + e^(step / k)). It is 1/2 at step k · ln k."""

    k: Annotated[float, Interval(ge=1)]

    def __call__(self, step: int) -> float:
        shrunk = self.k * math.exp(-step / self.k)  # e^(step / k) itself would overflow
        return shrunk / (shrunk + 1)
