"""Steps whose loss or gradient is not finite: skipped and counted without waiting for the device."""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.optim import Optimizer

from heed.errors import HeedError


class DivergedError(HeedError):
    """The numbers of a run are no longer finite: resuming it as it was would lead there again."""


class SkippedSteps:
    """Counts skipped steps, on the device that decides: all of them, and those in a row up to now."""

    def __init__(self, *, limit: int) -> None:
        """``limit``: so many in a row end a run."""
        self.limit = limit
        self.counts = torch.zeros(2, dtype=torch.int64)
        """[total, in a row]"""

    def count(self, finite: Bool[Tensor, ""]) -> None:
        """Count one step."""
        skipped = (~finite).long()
        counts = self.counts.to(finite.device, non_blocking=True) + skipped
        self.counts = counts * torch.stack((torch.ones_like(skipped), skipped))

    @property
    def total(self) -> int:
        """All skipped steps of the run, over all resumes. Reading it waits for the device."""
        return int(self.counts[0])

    def check(self, in_a_row: int, *, step: int, checkpoint: Path | None) -> None:
        """Raise a HeedError that says how to go on, if too many steps in a row were skipped."""
        if in_a_row >= self.limit:
            raise diverged(f"{in_a_row} steps in a row had a loss or gradient that is not finite", step, checkpoint)

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts.cpu()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.counts = state_dict["counts"]


def diverged(reason: str, step: int, checkpoint: Path | None) -> DivergedError:
    """The error that ends a run whose numbers are no longer finite.

    Args:
        reason: what was seen.
        step: when.
        checkpoint: the last one that was saved before.
    """
    advice = "a lower optimizer.lr, a longer schedule.warmup_steps or a smaller clip_norm usually helps"
    start = f"start a new run with ckpt_path='{checkpoint}'" if checkpoint else "start again (there is no checkpoint)"
    return DivergedError(f"Training diverged: up to step {step}, {reason}. To go on, {start}; {advice}.")


def step_if_finite(optimizer: Any, raw: Optimizer, finite: Bool[Tensor, ""], *, scaled: bool) -> None:
    """Take an optimizer step that changes nothing where the gradients are not finite. It is counted either way.

    Args:
        optimizer: Lightning's wrapper of ``raw``.
        scaled: a GradScaler takes the step, and skips it by itself.
    """
    if not scaled:
        # The contract between torch's GradScaler and its fused optimizers: a flag that their kernels read.
        if getattr(raw, "_step_supports_amp_scaling", False):
            raw.found_inf = (~finite).float()  # type: ignore[attr-defined]
        elif not finite:  # waits for the device, as GradScaler does for such optimizers
            raw.zero_grad(set_to_none=True)
    optimizer.step()
    if not scaled and hasattr(raw, "found_inf"):
        del raw.found_inf
