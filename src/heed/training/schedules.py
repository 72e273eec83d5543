"""Learning-rate schedules: functions from the optimizer step, counted from 0, to a factor on the peak learning rate."""

import math
from dataclasses import dataclass

from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, UnitInterval, validated


@validated("schedule.")
@dataclass(frozen=True, kw_only=True)
class Constant:
    """Linear warm-up, then the peak rate."""

    warmup_steps: AtLeast0

    def __call__(self, step: int) -> float:
        return min(1.0, (step + 1) / max(1, self.warmup_steps))


@validated("schedule.")
@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot:
    """Linear warm-up, then √(warmup / step) (Vaswani et al. 2017, eq. 3, with an explicit peak rate)."""

    warmup_steps: AtLeast0

    def __call__(self, step: int) -> float:
        warmup = max(1, self.warmup_steps)
        return min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


@validated("schedule.")
@dataclass(frozen=True, kw_only=True)
class Cosine:
    """Linear warm-up, then half a cosine from 1 to ``floor`` at ``total_steps`` (Loshchilov & Hutter 2017, eq. 5)."""

    warmup_steps: AtLeast0
    total_steps: AtLeast1 | None
    floor: UnitInterval

    def __post_init__(self) -> None:
        if self.total_steps is None:
            raise HeedError("schedule=cosine needs the number of training steps: set trainer.max_steps.")
        if self.total_steps <= self.warmup_steps:
            raise HeedError(
                f"schedule.total_steps={self.total_steps} (by default trainer.max_steps) must be greater than "
                f"schedule.warmup_steps={self.warmup_steps}."
            )

    def __call__(self, step: int) -> float:
        assert self.total_steps is not None
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        progress = min(1.0, (step - self.warmup_steps) / (self.total_steps - self.warmup_steps))
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))
