"""The callbacks of a run: those of every run, and the optional ones of ``conf/callbacks``, in the right order."""

from collections.abc import Iterable

from lightning.pytorch.callbacks import Callback

from heed.training.callbacks.checkpoints import Checkpoints
from heed.training.callbacks.ema import EMA
from heed.training.callbacks.metrics import MetricsLogger
from heed.training.callbacks.progress import DecodingProgress
from heed.training.callbacks.signals import StopOnSignal
from heed.training.callbacks.stopping import FinalValidation


def build_callbacks(optional: Iterable[Callback], checkpoints: Checkpoints) -> list[Callback]:
    """Add the callbacks of every run to the optional ones. Lightning calls them in this order, `Checkpoints` last."""
    return [
        MetricsLogger(),
        DecodingProgress(),
        FinalValidation(),
        checkpoints,
        # EMA after the callbacks that use the averaged weights when a validation ends.
        *sorted(optional, key=lambda callback: isinstance(callback, EMA)),
        # After all callbacks whose state changes with a step, because it saves a checkpoint.
        StopOnSignal(checkpoints),
    ]
