"""An exponential moving average of the weights, kept beside the weights being trained."""

from copy import deepcopy
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from heed.data.datamodule import StepShard
from heed.runs import averaging


class EMA(Callback):
    """w̄ ← d w̄ + (1 - d) w after every step (Polyak and Juditsky 1992), with d = min(decay, (1 + n) / (10 + n)).

    The n-th step's smaller d is TensorFlow's warm-up: the average forgets early weights as fast as these change.

    Validation scores w̄: it chooses among checkpoints, and tells when to stop, by what ``weights=ema`` will keep. For
    that time the model holds w̄, so this callback comes behind those that look at the model when a validation ends.
    Checkpoints hold both, and a resumed run goes on exactly; one resumed from a checkpoint without w̄ starts it there.
    """

    def __init__(self, *, decay: float) -> None:
        assert 0 < decay < 1
        self.decay = decay
        self.steps = 0
        self._average: nn.Module | None = None
        self._restored: dict[str, Tensor] | None = None
        self._in_use = False

    @property
    def state_key(self) -> str:
        return averaging.EMA

    def state_dict(self) -> dict[str, Any]:
        assert self._average is not None
        assert not self._in_use, "a checkpoint's own weights are the trained ones"
        return {"steps": self.steps, "weights": self._average.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps = state_dict["steps"]
        self._restored = state_dict["weights"]

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._average = deepcopy(pl_module.model).requires_grad_(False)
        if self._restored is not None:
            self._average.load_state_dict(self._restored)
            self._restored = None

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShard, batch_idx: int
    ) -> None:
        assert self._average is not None
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        torch._foreach_lerp_(list(self._average.parameters()), list(pl_module.model.parameters()), 1 - decay)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._average is not None:
            self._exchange(pl_module.model)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._in_use:
            self._exchange(pl_module.model)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        if self._in_use:
            self._exchange(pl_module.model)

    @torch.no_grad()
    def _exchange(self, model: nn.Module) -> None:
        """Model and average change places, by value: DDP, cuDNN and the optimizer keep the tensors they know."""
        assert self._average is not None
        for ours, theirs in zip(self._average.parameters(), model.parameters(), strict=True):
            kept = theirs.clone()
            theirs.copy_(ours)
            ours.copy_(kept)
        self._in_use = not self._in_use
