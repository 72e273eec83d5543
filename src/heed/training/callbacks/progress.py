"""Progress of training on the terminal: one line per report, with the estimated duration of the run."""

import math
import sys
from collections.abc import Mapping

import lightning as L
from lightning.pytorch.callbacks import Timer

from heed.data.datamodule import TranslationData


class TerminalProgress:
    """Prints progress to stderr.

    On a terminal, a line about training is overwritten by the next line. In a log file only the first one is written:
    it shows the speed and the estimated duration.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_first = True
        self._planned_steps: int | None = None

    def start(self, trainer: L.Trainer) -> None:
        """Read the limits of the run."""
        self._planned_steps = planned_steps(trainer, trainer.datamodule)

    def print_training(
        self,
        trainer: L.Trainer,
        metrics: Mapping[str, float],
        *,
        epoch: int,
        tokens_per_second: float,
        skipped_steps: int,
        train_seconds: float,
    ) -> None:
        """Print a line about training.

        Args:
            metrics: "lr" and, if it is finite, "loss".
            skipped_steps: all skipped steps of the run.
            train_seconds: duration of the run up to now.
        """
        limit = f"/{trainer.max_steps}" if trainer.max_steps > 0 else ""
        loss = f"{metrics['loss']:.3f}" if "loss" in metrics else "not finite"
        skipped = f"  {skipped_steps:,} steps skipped" if skipped_steps else ""
        line = (
            f"step {trainer.global_step:>6}{limit}  epoch {epoch}  loss {loss}  lr {metrics['lr']:.2e}  "
            f"{tokens_per_second:,.0f} tokens/s{skipped}  ({self._duration(trainer, train_seconds)})"
        )
        self._print(line, is_transient=not self._is_first)
        self._is_first = False

    def print_validation(
        self, trainer: L.Trainer, scores: Mapping[str, float], *, epoch: int, train_seconds: float
    ) -> None:
        """Print a line about a validation.

        Args:
            scores: "loss", "bleu", "chrf" and, if it was measured, "aer".
            train_seconds: duration of the run up to now.
        """
        aer = f"  AER {scores['aer']:.3f}" if "aer" in scores else ""
        self._print(
            f"step {trainer.global_step:>6}  epoch {epoch}  valid: loss {scores['loss']:.3f}  "
            f"BLEU {scores['bleu']:.2f}  chrF {scores['chrf']:.2f}{aer}  ({self._duration(trainer, train_seconds)})"
        )

    def _duration(self, trainer: L.Trainer, train_seconds: float) -> str:
        """The duration up to now and, if the run has a limit, the estimated total."""
        timers = [callback for callback in trainer.callbacks if isinstance(callback, Timer)]  # trainer.max_time
        totals = [train_seconds + timer.time_remaining() for timer in timers]
        if self._planned_steps:
            totals.append(train_seconds / trainer.global_step * self._planned_steps)
        total = f" of about {_minutes(max(min(totals), train_seconds))}" if totals else ""
        return f"{_minutes(train_seconds)}{total} min"

    def _print(self, line: str, *, is_transient: bool = False) -> None:
        if self._is_terminal:
            sys.stderr.write(f"\r\033[K{line}" if is_transient else f"\r\033[K{line}\n")
        elif not is_transient:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def planned_steps(trainer: L.Trainer, data: TranslationData) -> int | None:
    """Return the smaller limit of ``max_steps`` and ``max_epochs`` in optimizer steps, or None without limits.

    The number of steps in an epoch is an estimate.
    """
    limits = [trainer.max_steps] if trainer.max_steps > 0 else []
    if trainer.max_epochs and trainer.max_epochs > 0:
        limits.append(math.ceil(trainer.max_epochs * data.train_tgt_tokens / data.planner.batch_tokens))
    return min(limits, default=None)


def _minutes(seconds: float) -> str:
    return "{}:{:02}".format(*divmod(round(seconds), 60))
