"""Stop training when validations no longer improve."""

from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.options import AtLeast1
from heed.runs.selection import Selection


class EarlyStopping(Callback):
    """Stops after ``patience`` validations without an improvement.

    It compares validations by the same `Selection` as `Checkpoints`. Lightning's EarlyStopping compares one number: it
    would stop a model whose BLEU stays at 0.00 while its loss still falls.
    """

    def __init__(self, *, patience: AtLeast1 | None) -> None:
        """
        Args:
            patience: None: never stop.
        """
        self.patience = patience
        self.selection = Selection()
        self.best: tuple[float, ...] | None = None
        self.waited = 0
        """Validations since the best one."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.selection = trainer.checkpoint_callback.selection

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited} if self.patience else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.waited = state_dict["best"], state_dict["waited"]

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.patience is None:
            return
        key = self.selection.key(pl_module.validation_scores)
        if self.best is None or key > self.best:
            self.best, self.waited = key, 0
        else:
            self.waited += 1
        if self.waited >= self.patience:
            trainer.should_stop = True
