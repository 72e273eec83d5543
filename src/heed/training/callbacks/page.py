"""Keep the page of a run up to date while the run trains, and the translations that it shows."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.errors import failure_reason, first_line
from heed.options import AtLeast0
from heed.progress import is_first_process
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.folder import write_failure
from heed.runs.records import SAMPLES, is_kept, keep_json_lines
from heed.training.loggers import log_table

MAX_SHARE, FREE_SECONDS = 0.01, 1.0
"""The page may take this share of the time of training, and this many seconds more."""


class RunPage(Callback):
    """Writes the page after the first step, after validations and when the run ends, in the first process.

    It comes after the callbacks that write what the page shows. ``write`` is `heed.report.run_page.write_report`.
    """

    def __init__(self, folder: Path, write: Callable[..., object]) -> None:
        self.folder, self.write = folder, write
        self.seconds = 0.0
        """Spent on the page."""
        self._start = time.perf_counter()

    def update(self, *_: object) -> None:
        """Write the page, unless it has taken too much time so far."""
        if self.seconds <= MAX_SHARE * (time.perf_counter() - self._start) + FREE_SECONDS:
            self._write(is_running=True)

    on_validation_end = update

    def on_train_batch_end(self, *_: object) -> None:
        if not self.seconds:
            self.update()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Write the page after the block and, if that fails, the reason; nothing if training has not started."""
        try:
            yield
        except Exception as error:
            if is_first_process() and (self.folder / METRICS_FILE).exists():
                write_failure(self.folder, failure_reason(error), error)
            raise
        finally:
            if (self.folder / METRICS_FILE).exists():
                self._write(is_running=False)

    def _write(self, *, is_running: bool) -> None:
        if not is_first_process():
            return
        start = time.perf_counter()
        try:
            self.write(self.folder, is_running=is_running)
        except Exception as error:  # the run goes on without a page
            warnings.warn(f"The page of {self.folder} cannot be written: {first_line(error)}", stacklevel=2)
        self.seconds += time.perf_counter() - start


class SampleTranslations(Callback):
    """Logs source, reference and translation of some validation sentences at every validation.

    ``sentences`` says about how many, evenly spaced in each validation set; 0: none. wandb gets a table. In the
    run folder, ``samples.jsonl`` has a line for each validation and validation set.
    """

    def __init__(self, *, sentences: AtLeast0) -> None:
        self.sentences = sentences

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:  # a resumed run repeats the steps after its checkpoint
            keep_json_lines(Path(trainer.default_root_dir, SAMPLES), lambda step: step <= trainer.global_step)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.sentences == 0:
            return
        now, records = trainer.global_step, []
        for name in pl_module.data.sets.validated:
            valid, translations = pl_module.data.sets.texts[name], pl_module.results[name].translations
            sampled = range(0, len(valid), math.ceil(len(valid) / self.sentences))
            texts = {"source": valid.src, "reference": valid.tgt, "translation": translations}
            columns: dict[str, list[str]] = {key: [lines[i] for i in sampled] for key, lines in texts.items()}
            rows = list(zip(*columns.values(), strict=True))
            log_table(trainer.loggers, f"{name}/translations", tuple(columns), rows, step=now)
            records.append({"step": now, "set": name, **columns})
        if trainer.is_global_zero:
            every: Any = trainer.val_check_interval
            file = Path(trainer.default_root_dir, SAMPLES)
            keep_json_lines(file, lambda step: is_kept(step, now=now, every=every), records)
