"""Skip optimizer steps whose loss or gradient is NaN or infinite, and count them without a device synchronisation."""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.optim import Optimizer

from heed.compat import reads_found_inf
from heed.errors import HeedError


class DivergedError(HeedError):
    """Training diverged to NaN or infinity. Resuming with the same options would diverge again."""

    def __init__(self, reason: str, *, step: int, checkpoint: Path | None) -> None:
        """
        Args:
            reason: what was observed.
            step: the optimizer step at which it was observed.
            checkpoint: the latest checkpoint before that step, if there is one.
        """
        restart = (
            f"start a new run with ckpt_path='{checkpoint}'" if checkpoint else "start again (there is no checkpoint)"
        )
        super().__init__(
            f"Training diverged: up to step {step}, {reason}. To continue, {restart}; a lower optimizer.lr, a longer "
            "schedule.warmup_steps or a smaller clip_norm usually helps."
        )


class SkippedSteps:
    """Counts skipped optimizer steps: all of a run, and consecutive ones up to now. The counts stay on the device."""

    def __init__(self, *, limit: int) -> None:
        """
        Args:
            limit: the number of consecutive skipped steps at which training stops.
        """
        self.limit = limit
        self.counts = torch.zeros(2, dtype=torch.int64)
        """[total, consecutive]"""

    def count(self, finite: Bool[Tensor, ""]) -> None:
        """Count one optimizer step, which is skipped unless ``finite``."""
        skipped = (~finite).long()
        counts = self.counts.to(finite.device, non_blocking=True) + skipped
        self.counts = counts * torch.stack((torch.ones_like(skipped), skipped))

    @property
    def total(self) -> int:
        """The number of skipped steps of the run, including those before a resume. Reading it waits for the device."""
        return int(self.counts[0])

    def check(self, consecutive: int, *, step: int, checkpoint: Path | None) -> None:
        """Raise a DivergedError if the number of consecutive skipped steps has reached the limit."""
        if consecutive >= self.limit:
            reason = f"{consecutive} steps in a row had a loss or gradient that is not finite"
            raise DivergedError(reason, step=step, checkpoint=checkpoint)

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts.cpu()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.counts = state_dict["counts"]


def step_if_finite(
    optimizer: Any, raw_optimizer: Optimizer, finite: Bool[Tensor, ""], *, uses_grad_scaler: bool
) -> None:
    """Take an optimizer step that changes neither parameters nor state unless ``finite``.

    Lightning counts the step in both cases.

    Args:
        optimizer: Lightning's wrapper of ``raw_optimizer``.
        finite: whether the loss and all gradients are finite.
        uses_grad_scaler: a GradScaler takes the step and skips it itself.
    """
    if not uses_grad_scaler:
        if reads_found_inf(raw_optimizer):
            raw_optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        elif not finite:  # waits for the device, as GradScaler does for such optimizers
            raw_optimizer.zero_grad(set_to_none=True)
    optimizer.step()
    if not uses_grad_scaler and hasattr(raw_optimizer, "found_inf"):
        del raw_optimizer.found_inf
