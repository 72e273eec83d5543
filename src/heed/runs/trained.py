"""A finished run in Python, which `heed.train` returns."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError
from heed.inference.loading import load
from heed.inference.translator import Translator
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.records import DIAGNOSES, read_csv, read_json_lines
from heed.runs.results import RESULTS, read_results


class TrainedRun(os.PathLike[str]):
    """A finished run, with what it wrote: ``heed.TrainedRun("runs/NAME/TIME")``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not any((self.path / name).is_file() for name in (RESULTS, METRICS_FILE)):
            raise HeedError(f"{self.path} is not a run (runs/NAME/TIME): it has no {RESULTS}.")

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        if not (self.path / RESULTS).is_file():
            return f"<TrainedRun {self.path}: unfinished>"
        results = self.results
        scores = [f", {split} BLEU {results[split]['bleu']:.2f}" for split in ("valid", "test") if results[split]]
        return f"<TrainedRun {self.path}: {results['model']}, {results['params']:,} parameters{''.join(scores)}>"

    @cached_property
    def results(self) -> dict[str, Any]:
        """The contents of ``results.json``."""
        return read_results(self.path / RESULTS)

    @property
    def diagnoses(self) -> dict[str, str]:
        """What heed said about the run: a sentence for the name of each diagnosis."""
        return {record["name"]: record["message"] for record in read_json_lines(self.path / DIAGNOSES)}

    def load(self, **options: Any) -> Translator:
        """Return the trained model; see `heed.load` for the options."""
        return load(self.path, **options)

    def curves(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the columns of ``metrics.csv``: step, loss, lr, valid_loss, valid_bleu …; NaN where a value lacks.

        `heed.plot.curves` draws them.

        Raises:
            HeedError: if this is not the folder of a run, or the run has not taken a step.
        """
        if not (rows := read_csv(self.path / METRICS_FILE)):
            raise HeedError(f"{self.path} has no {METRICS_FILE} with a step of training: give a run (runs/NAME/TIME).")
        return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}
