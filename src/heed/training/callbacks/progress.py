"""Progress of training, validation and tests on the terminal or in a log file, see `heed.progress`."""

import math
from collections.abc import Mapping

import lightning as L
from lightning.pytorch.callbacks import Timer

from heed.data.batch import Batch
from heed.data.datamodule import TranslationData
from heed.progress import Progress, duration, print_line


class TerminalProgress:
    """Reports the progress of a run: one bar for training, and one for every evaluation set that is decoded."""

    def __init__(self) -> None:
        self._training: Progress | None = None
        self._decoding: Progress | None = None
        self._is_first = True

    # ---- training

    def start_training(self, trainer: L.Trainer) -> None:
        """Read the limits of the run."""
        self._training = Progress(
            "Training",
            total=planned_steps(trainer, trainer.datamodule),
            unit="steps",
            initial=trainer.global_step,
            enabled=trainer.is_global_zero,
        ).start()
        timers = [callback for callback in trainer.callbacks if isinstance(callback, Timer)]  # trainer.max_time
        if timers:
            self._training.time_limit = lambda: min(timer.time_remaining() for timer in timers)
        self._is_first = True

    def update_training(self, step: int) -> None:
        """Report that ``step`` optimizer steps have been taken. A log file always gets a line about the first loss."""
        if self._training is None:
            return
        if self._is_first and self._training.note:
            self._training.count = step
            self._training.report()
            self._is_first = False
        else:
            self._training.update_to(step)

    def describe_training(
        self, metrics: Mapping[str, float], *, epoch: int, tokens_per_second: float, skipped_steps: int
    ) -> None:
        """Show metrics in the next reports.

        Args:
            metrics: "lr" and, if it is finite, "loss".
            skipped_steps: all skipped steps of the run.
        """
        if self._training is None:
            return
        loss = f"{metrics['loss']:.3f}" if "loss" in metrics else "not finite"
        skipped = f", {skipped_steps:,} steps skipped" if skipped_steps else ""
        self._training.note = (
            f"loss {loss}, {tokens_per_second:,.0f} tokens/s, epoch {epoch}, lr {metrics['lr']:.2e}{skipped}"
        )

    def end_training(self) -> None:
        """End the reports about training."""
        if self._training is not None:
            self._training.close()
            self._training = None

    # ---- evaluation

    def print_validation(
        self, trainer: L.Trainer, scores: Mapping[str, float], *, epoch: int, train_seconds: float
    ) -> None:
        """Print a line about a validation.

        Args:
            scores: "loss", "bleu", "chrf" and, if it was measured, "aer".
            train_seconds: duration of the run up to now.
        """
        aer = f"  AER {scores['aer']:.3f}" if "aer" in scores else ""
        print_line(
            f"step {trainer.global_step:>6}  epoch {epoch}  valid: loss {scores['loss']:.3f}  "
            f"BLEU {scores['bleu']:.2f}  chrF {scores['chrf']:.2f}{aer}  after {duration(train_seconds)}"
        )

    def start_decoding(self, trainer: L.Trainer, split: str) -> None:
        """Report the decoding of an evaluation set, if it is not reported yet."""
        description = f"Decoding {split}"
        if self._decoding is not None and self._decoding.description == description:
            return
        self.end_decoding()
        lengths = trainer.datamodule.encoded[split].src_lengths
        total = int(lengths.sum()) + len(lengths)  # + 1 for EOS
        self._decoding = Progress(description, total=total, unit="tokens", enabled=trainer.is_global_zero).start()

    def update_decoding(self, trainer: L.Trainer, batch: Batch) -> None:
        """Count a decoded batch, and as much for every other process."""
        if self._decoding is not None:
            # The mask is read only where it is reported, because it may be on a device.
            tokens = int(batch.src_mask.sum()) if trainer.is_global_zero else 0
            self._decoding.update(tokens * trainer.world_size)

    def end_decoding(self) -> None:
        """End the reports about an evaluation set."""
        if self._decoding is not None:
            self._decoding.close()
            self._decoding = None

    def abort(self) -> None:
        """Erase all bars after an exception."""
        for bar in (self._decoding, self._training):
            if bar is not None:
                bar.close(finished=False)
        self._decoding = self._training = None


def planned_steps(trainer: L.Trainer, data: TranslationData) -> int | None:
    """Return the smaller limit of ``max_steps`` and ``max_epochs`` in optimizer steps, or None without limits.

    The number of steps in an epoch is an estimate.
    """
    limits = [trainer.max_steps] if trainer.max_steps > 0 else []
    if trainer.max_epochs and trainer.max_epochs > 0:
        limits.append(math.ceil(trainer.max_epochs * data.train_tgt_tokens / data.planner.batch_tokens))
    return min(limits, default=None)
