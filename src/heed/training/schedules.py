"""Learning-rate schedules: functions from the optimizer step, counted from 0, to a factor on the peak learning rate."""

import math
from dataclasses import dataclass, replace

import lightning as L

from heed.data.datamodule import TranslationData
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
    """None: not yet known, see `until`. The rate then stays at its peak."""
    floor: UnitInterval

    def __post_init__(self) -> None:
        if self.total_steps is not None and self.total_steps <= self.warmup_steps:
            raise HeedError(
                f"schedule.total_steps={self.total_steps} must be greater than schedule.warmup_steps="
                f"{self.warmup_steps}."
            )

    def until(self, steps: int | None) -> "Cosine":
        """Return the schedule that ends after this many steps, or this one if ``total_steps`` is given.

        Raises:
            HeedError: if neither is known.
        """
        if self.total_steps is not None:
            return self
        if steps is None:
            raise HeedError(
                "schedule=cosine needs the end of training: set trainer.max_steps or trainer.max_epochs, or choose "
                "schedule=inverse_sqrt."
            )
        return replace(self, total_steps=max(steps, self.warmup_steps + 1))

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        decay_steps = (self.total_steps or math.inf) - self.warmup_steps
        progress = min(1.0, (step - self.warmup_steps) / decay_steps)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))


def planned_steps(trainer: L.Trainer, data: TranslationData) -> int | None:
    """Return the smaller limit of ``max_steps`` and ``max_epochs`` in optimizer steps, or None without limits.

    The number of steps in an epoch is an estimate.
    """
    limits = [trainer.max_steps] if trainer.max_steps > 0 else []
    if trainer.max_epochs and trainer.max_epochs > 0:
        limits.append(math.ceil(trainer.max_epochs * data.train_tgt_tokens / data.planner.batch_tokens))
    return min(limits, default=None)
