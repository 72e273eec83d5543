"""The page of a run, kept up to date while the run trains."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightning.pytorch.callbacks import LambdaCallback

from heed.errors import first_line
from heed.launch.errors import failure_reason
from heed.report.run_page import write_report
from heed.runs.checkpoints import METRICS
from heed.runs.folder import write_failure

MAX_SHARE, FREE_SECONDS = 0.01, 1.0
"""The page may take this share of the time of training, and this many seconds more."""


class RunPage:
    """Writes the page when training starts, after each validation unless that takes too much time, and at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = 0.0
        """In which the page was written."""
        self._start = time.perf_counter()

    @property
    def callback(self) -> LambdaCallback:
        """It comes after the callbacks that write what the page shows."""
        return LambdaCallback(on_train_start=self._update, on_validation_end=self._update)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Write the page after the block; if that fails, record why. A run that did not start training gets neither."""
        try:
            yield
        except Exception as error:
            if (self.folder / METRICS).exists():
                write_failure(self.folder, failure_reason(error), error)
            raise
        finally:
            if (self.folder / METRICS).exists():
                self._write(is_running=False)

    def _update(self, *_: object) -> None:
        if self.seconds <= MAX_SHARE * (time.perf_counter() - self._start) + FREE_SECONDS:
            self._write(is_running=True)

    def _write(self, *, is_running: bool) -> None:
        """Write the page. If it cannot be written, the run goes on."""
        start = time.perf_counter()
        try:
            write_report(self.folder, is_running=is_running)
        except Exception as error:
            warnings.warn(f"The page of {self.folder} cannot be written: {first_line(error)}", stacklevel=2)
        self.seconds += time.perf_counter() - start
