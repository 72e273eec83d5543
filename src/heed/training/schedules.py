"""Functions of the optimizer step, counted from 0.

Learning-rate schedules return a factor on the peak learning rate. Scheduled sampling (Bengio et al. 2015, §2.4) decays
the probability that a decoder input is the gold token.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import lightning as L
from annotated_types import Interval
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.strategies import Strategy

from heed.data.datamodule import TranslationData
from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, Probability, UnitInterval, validated


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
    """None: not yet known, see `until_end`. The rate then stays at its peak."""
    floor: UnitInterval

    def __post_init__(self) -> None:
        if self.total_steps is not None and self.total_steps <= self.warmup_steps:
            raise HeedError(
                f"schedule.total_steps={self.total_steps} must be greater than schedule.warmup_steps="
                f"{self.warmup_steps}."
            )

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        decay_steps = (self.total_steps or math.inf) - self.warmup_steps
        return self.decayed((step - self.warmup_steps) / decay_steps)

    def decayed(self, progress: float) -> float:
        """Return the factor after this fraction of the decay, or its end."""
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


@dataclass(frozen=True, kw_only=True)
class CosineInTime:
    """A cosine over the time of a training that only ``trainer.max_time`` ends. The warm-up multiplies it."""

    cosine: Cosine
    timer: Timer
    strategy: Strategy

    def __call__(self, step: int) -> float:
        used, left = self.timer.time_elapsed(), self.timer.time_remaining() or 0.0
        # Clocks differ, and processes with different rates would train different models.
        progress = self.strategy.broadcast(used / (used + left) if left > 0 else 1.0)
        return min(1.0, (step + 1) / max(1, self.cosine.warmup_steps)) * self.cosine.decayed(progress)


def until_end(cosine: Cosine, trainer: L.Trainer, data: TranslationData) -> Cosine | CosineInTime:
    """Return the schedule that ends with the training, by ``trainer.max_time`` if that is its only limit.

    If ``total_steps`` is given, it stays.

    Raises:
        HeedError: if neither is known.
    """
    if cosine.total_steps is not None:
        return cosine
    if (steps := planned_steps(trainer, data)) is not None:
        return replace(cosine, total_steps=max(steps, cosine.warmup_steps + 1))
    for callback in trainer.callbacks:
        if isinstance(callback, Timer):
            return CosineInTime(cosine=cosine, timer=callback, strategy=trainer.strategy)
    raise HeedError(
        "schedule=cosine needs the end of training: set trainer.max_steps, trainer.max_epochs or trainer.max_time, or "
        "choose schedule=inverse_sqrt."
    )


def planned_steps(trainer: L.Trainer, data: TranslationData) -> int | None:
    """Return the smaller limit of ``max_steps`` and ``max_epochs`` in optimizer steps, or None without limits.

    The number of steps in an epoch is an estimate.
    """
    limits = [trainer.max_steps] if trainer.max_steps > 0 else []
    if trainer.max_epochs and trainer.max_epochs > 0:
        limits.append(math.ceil(trainer.max_epochs * data.stream.tgt_tokens / data.planner.batch_tokens))
    return min(limits, default=None)


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
