"""Clip gradients; skip and count steps whose loss or gradient is not finite, without a device synchronisation."""

from collections.abc import Iterable
from typing import Any

import lightning as L
import torch
from jaxtyping import Bool, Float
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim import Optimizer

from heed import compat
from heed.errors import HeedError


class DivergedError(HeedError):
    """Training diverged to NaN or infinity. Resuming with the same options would diverge again.

    ``reason`` says what was observed after the current step.
    """

    def __init__(self, reason: str, trainer: L.Trainer) -> None:
        saved = trainer.checkpoint_callback.last
        restart = f"start a new run with ckpt_path='{saved[0]}'" if saved else "start again (there is no checkpoint)"
        super().__init__(
            f"Training diverged: up to step {trainer.global_step}, {reason}. To continue, {restart}; a lower "
            "optimizer.lr, a longer schedule.warmup_steps or a smaller clip_norm usually helps."
        )


class SkippedSteps(Callback):
    """Counts skipped optimizer steps, and stops a run after ``limit`` consecutive ones: it has diverged.

    The counts stay on the device between the reports of training, and a run can stop only at a report.
    """

    def __init__(self, *, limit: int) -> None:
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

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step % trainer.log_every_n_steps == 0 and (consecutive := int(self.counts[1])) >= self.limit:
            raise DivergedError(f"{consecutive} steps in a row had a loss or gradient that is not finite", trainer)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["skipped_steps"] = {"counts": self.counts.cpu()}

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        self.counts = checkpoint["skipped_steps"]["counts"]


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Float[Tensor, ""]:
    """Scale all gradients so that their total L2 norm is at most ``max_norm``, unless it is 0; return the norm before.

    Source: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks".

    The squares are summed in float64, so that the result does not depend on the order of the parameters.
    """
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    norms = torch.stack(list(compat.norms([parameter.grad for parameter in trained if parameter.grad is not None])))
    exact = norms if norms.device.type == "mps" else norms.double()
    norm = torch.linalg.vector_norm(exact).to(norms.dtype)
    if max_norm:
        nn.utils.clip_grads_with_norm_(trained, max_norm, norm)
    return norm


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
        if compat.reads_found_inf(raw_optimizer):
            raw_optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        elif not finite:  # waits for the device, as GradScaler does for such optimizers
            raw_optimizer.zero_grad(set_to_none=True)
    optimizer.step()
    if not uses_grad_scaler and hasattr(raw_optimizer, "found_inf"):
        del raw_optimizer.found_inf
