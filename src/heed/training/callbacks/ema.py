"""An exponential moving average (EMA) of the weights."""

from copy import deepcopy
from typing import Annotated, Any

import lightning as L
import torch
from annotated_types import Interval
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from heed.runs import averaging


class EMA(Callback):
    """Keeps w̄ ← d w̄ + (1 − d) w after every step n, with d = min(decay, (1 + n) / (10 + n)).

    The smaller d of early steps is the warm-up of TensorFlow's ExponentialMovingAverage: early weights change fast, and
    the average has to forget them as fast.

    Validations use w̄, so that checkpoint selection and early stopping judge the weights that ``weights=ema`` saves.
    During a validation the model holds w̄: this callback has to come after those that use the model when a validation
    ends. Checkpoints contain both w and w̄. A run resumed from a checkpoint without w̄ starts the average from w.

    Lightning's EMAWeightAveraging has a constant decay, swaps the weights back before attention maps are drawn, and
    does not restore them after an exception.

    With ``decay`` None, no average is kept.
    """

    def __init__(self, *, decay: Annotated[float, Interval(gt=0, lt=1)] | None) -> None:
        self.decay = decay
        self.steps = 0
        self._average: nn.Module | None = None
        self._restored: dict[str, Tensor] | None = None
        self._is_swapped = False

    @property
    def state_key(self) -> str:
        return averaging.EMA_STATE

    def state_dict(self) -> dict[str, Any]:
        if self.decay is None:
            return {}
        assert self._average is not None
        assert not self._is_swapped, "the model in a checkpoint has its trained weights"
        return {"steps": self.steps, "weights": self._average.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps = state_dict["steps"]
        self._restored = state_dict["weights"]

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.decay is None:
            return
        self._average = deepcopy(pl_module.model).requires_grad_(False)
        if self._restored is not None:
            self._average.load_state_dict(self._restored)
            self._restored = None

    @torch.no_grad()
    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        if self.decay is None:
            return
        assert self._average is not None
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        update([*self._average.parameters()], [*pl_module.model.parameters()], self.steps)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._average is not None:
            self._swap(pl_module.model)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: BaseException) -> None:
        if self._is_swapped:
            self._swap(pl_module.model)

    on_exception = on_validation_end

    @torch.no_grad()
    def _swap(self, model: nn.Module) -> None:
        """Exchange the values of model and average. DDP, cuDNN and the optimizer hold references to the tensors."""
        assert self._average is not None
        for average, parameter in zip(self._average.parameters(), model.parameters(), strict=True):
            trained = parameter.clone()
            parameter.copy_(average)
            average.copy_(trained)
        self._is_swapped = not self._is_swapped
