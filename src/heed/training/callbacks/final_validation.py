"""End every run with a validation."""

from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.data.datamodule import StepShard


class FinalValidation(Callback):
    """Runs a validation, and so writes a checkpoint, after the last step of a run of any length."""

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShard, batch_idx: int
    ) -> None:
        if batch.last or trainer.global_step == trainer.max_steps:
            # Lightning validates before it stops.
            trainer.should_stop = True
