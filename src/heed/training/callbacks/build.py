"""Build the callbacks of a run from the options in ``conf/callbacks``."""

from pathlib import Path
from typing import Annotated

from annotated_types import Interval
from lightning.pytorch.callbacks import Callback

from heed.options import AtLeast0, AtLeast1
from heed.runs.selection import Selection
from heed.training.callbacks.alignment_error_rate import AlignmentErrorRate
from heed.training.callbacks.attention_maps import DrawAttentionMaps
from heed.training.callbacks.checkpoints import Checkpoints
from heed.training.callbacks.early_stopping import EarlyStopping
from heed.training.callbacks.ema import EMA
from heed.training.callbacks.final_validation import FinalValidation
from heed.training.callbacks.metrics import MetricsLogger
from heed.training.callbacks.sample_translations import SampleTranslations
from heed.training.callbacks.signals import StopOnSignal

CheckpointCount = Annotated[int, Interval(ge=-1)]
"""A number of checkpoints; -1: all."""


def build_callbacks(
    *,
    folder: Path,
    selection: Selection,
    log_every: AtLeast1,
    sample_translations: AtLeast0,
    aer_sentences: AtLeast0,
    maps: AtLeast0,
    keep_best: CheckpointCount,
    keep_last: CheckpointCount,
    early_stopping: AtLeast1 | None,
    ema: Annotated[float, Interval(gt=0, lt=1)] | None,
) -> list[Callback]:
    """Build the callbacks. Lightning calls them in this order, and `Checkpoints` last.

    Args:
        folder: of the run.
        selection: compares validations, for the best checkpoints and for early stopping.
        log_every: optimizer steps between two reports of training metrics.
        sample_translations: validation sentences whose translations are logged; 0: none.
        aer_sentences: sentences of a split whose alignment error rate is measured; 0: none.
        maps: validation sentences whose attention maps are drawn; 0: none.
        keep_best: best checkpoints to keep; -1: all.
        keep_last: latest checkpoints to keep; -1: all.
        early_stopping: stop after this many validations without an improvement; None: never.
        ema: decay of a moving average of the weights (`EMA`); None: no average.
    """
    checkpoints = Checkpoints(folder / "checkpoints", selection=selection, keep_best=keep_best, keep_last=keep_last)
    callbacks: list[Callback] = [MetricsLogger(folder, log_every=log_every), FinalValidation(), checkpoints]
    if sample_translations:
        callbacks.append(SampleTranslations(sample_translations))
    if aer_sentences:
        callbacks.append(AlignmentErrorRate(sentences=aer_sentences))
    if maps:
        callbacks.append(DrawAttentionMaps(folder, count=maps))
    if early_stopping:
        callbacks.append(EarlyStopping(selection, patience=early_stopping))
    if ema is not None:
        # After the callbacks that use the averaged weights when a validation ends.
        callbacks.append(EMA(decay=ema))
    # After all callbacks whose state changes with a step, because it saves a checkpoint.
    callbacks.append(StopOnSignal(checkpoints))
    return callbacks
