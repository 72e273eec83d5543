"""Progress of training, validation and tests on the terminal or in a log file, see `heed.progress`."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback, Timer
from tqdm import tqdm

from heed.data.steps.batch import Batch
from heed.progress import progress_bar


class DecodingProgress(Callback):
    """Reports the progress of decoding validation and test sets."""

    def __init__(self) -> None:
        self._bars = ExitStack()
        self._bar: Any = None

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: Any, _: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == 0:
            self._bars.close()
            split = trainer.datamodule.sets.evaluated[dataloader_idx]  # starts with the validation sets
            total = int((trainer.datamodule.sets.encoded[split].src_lengths + 1).sum())  # + 1 for EOS
            bar = progress_bar(f"Decoding {split}", total=total, unit="tokens", enabled=trainer.is_global_zero)
            self._bar = self._bars.enter_context(bar)

    def on_validation_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Batch, *_: int) -> None:
        if trainer.is_global_zero:  # the mask may be on a device: read it only where it is reported
            self._bar.update(int(batch.src_mask.sum()) * trainer.world_size)

    def _end(self, *_: Any) -> None:
        self._bars.close()

    on_test_batch_start = on_validation_batch_start
    on_test_batch_end = on_validation_batch_end
    on_validation_epoch_end = on_test_epoch_end = on_exception = _end


def training_note(trainer: L.Trainer, metrics: Mapping[str, float]) -> str:
    """Return what is shown next to the number of steps, from the metrics that are logged.

    A loss that is not finite is missing there, and so is the number of skipped steps if it is 0.
    """
    loss = f"{metrics['loss']:.3f}" if "loss" in metrics else "not finite"
    speed, epoch, lr = (metrics[name] for name in ("tokens_per_second", "epoch", "lr"))
    note = f"loss {loss}, {speed:,.0f} tokens/s, epoch {epoch}, lr {lr:.2e}"
    if "skipped_steps" in metrics:
        note += f", {metrics['skipped_steps']:,} steps skipped"
    for timer in trainer.callbacks:
        if isinstance(timer, Timer):  # trainer.max_time
            note += f", {tqdm.format_interval(timer.time_remaining())} until trainer.max_time"
    return note


def validation_line(step: int, scores: Mapping[str, float], *, epoch: int, train_seconds: float) -> str:
    """Return the line that is printed after a validation with these scores: loss, bleu, chrf and perhaps aer."""
    aer = f"  AER {scores['aer']:.3f}" if "aer" in scores else ""
    return (
        f"step {step:>6}  epoch {epoch}  valid: loss {scores['loss']:.3f}  BLEU {scores['bleu']:.2f}  "
        f"chrF {scores['chrf']:.2f}{aer}  after {tqdm.format_interval(train_seconds)}"
    )
