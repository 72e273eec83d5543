"""When a run ends: after its last step, when validations no longer improve, or when a search finds it unpromising."""

from collections.abc import Callable
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.data.steps.stream import StepShard
from heed.options import AtLeast1

Report = Callable[[int, float], bool]
"""Takes an optimizer step and the metric there, and returns whether to end the run."""


class FinalValidation(Callback):
    """Runs a validation, and so writes a checkpoint, after the last step of a run of any length."""

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: StepShard, _: int) -> None:
        if batch.last or trainer.global_step == trainer.max_steps:
            # Lightning validates before it stops.
            trainer.should_stop = True


class EarlyStopping(Callback):
    """Stops after ``patience`` validations without an improvement; None: never.

    It compares validations by the same `Selection` as `Checkpoints`. Lightning's EarlyStopping compares one number: it
    would stop a model whose BLEU stays at 0.00 while its loss still falls.
    """

    def __init__(self, *, patience: AtLeast1 | None) -> None:
        self.patience = patience
        self.best: tuple[float, ...] | None = None
        self.waited = 0
        """Validations since the best one."""

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited} if self.patience else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.waited = state_dict["best"], state_dict["waited"]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._stop_if_due(trainer)  # the checkpoint may be that of the last validation

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.patience is None:
            return
        key = trainer.checkpoint_callback.selection.key(pl_module.validation_scores)
        if self.best is None or key > self.best:
            self.best, self.waited = key, 0
        else:
            self.waited += 1
        self._stop_if_due(trainer)

    def _stop_if_due(self, trainer: L.Trainer) -> None:
        if self.patience is not None and self.waited >= self.patience:
            trainer.should_stop = True


class Pruning(Callback):
    """Reports every validation to a search. If the search gives the run up, all processes stop after that validation.

    Args:
        metric: the validation metric to report: bleu, chrf or loss.
        report: asks the search; None in all processes but the first.
    """

    def __init__(self, metric: str, report: Report | None) -> None:
        self.metric, self.report = metric, report
        self.pruned_at: int | None = None
        """The step at which the search gave the run up, if it did."""

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        give_up = self.report is not None and self.report(trainer.global_step, pl_module.validation_scores[self.metric])
        # A run that ends anyway, after this validation, is complete.
        if trainer.strategy.broadcast(give_up) and not trainer.should_stop:
            self.pruned_at = trainer.global_step
            trainer.should_stop = True
