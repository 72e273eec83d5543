"""What a sweep (``train.py -m``) needs beside its jobs: one folder, processes that know their job, and a table."""

import atexit
import os
import sys
from datetime import datetime
from pathlib import Path
from traceback import format_exception
from typing import Any

import torch
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import read_write

from heed.errors import HeedError
from heed.launch.processes import agree_on_folder, detect_launch
from heed.runs.claim import create
from heed.runs.table import FAILURE, OVERRIDES, read_runs, sort_runs, table

LAUNCH_VARIABLES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""By them Lightning tells the processes of one job who they are; where they are set, it starts none."""


class Sweep(Callback):
    """Hydra tells it when a sweep and its jobs begin and end. A run by itself is none of its business.

    ``config`` is Hydra's DictConfig, a name that beartype is at odds with.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._before: tuple[list[str], set[str]] = ([], set())

    def on_multirun_start(self, config: Any, **_: Any) -> None:
        HydraConfig.instance().set_config(config)  # the name of the sweep's folder asks it what was chosen
        given, home = Path(config.hydra.sweep.dir), Path("runs", config.name)
        now = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
        self.folder = agree_on_folder(detect_launch(), lambda: create(home, now) if given == home else given)
        with read_write(config.hydra):
            config.hydra.sweep.dir = str(self.folder)
            # Decided once: a job's own name holds its model, and a sweep over models would have as many folders.
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{self.folder}'")
        # Hydra does not report the end of a sweep in which a job failed.
        atexit.register(self._conclude)

    def on_job_start(self, config: Any, **_: Any) -> None:
        if self.folder is None:
            return
        job = HydraConfig.get()
        overrides = list(job.overrides.task)
        (Path(job.runtime.output_dir) / OVERRIDES).write_text(yaml.safe_dump(overrides), encoding="utf-8")
        print(f"\nJob {job.job.num}: {' '.join(overrides)}", file=sys.stderr, flush=True)
        # Lightning starts the job's other processes by the command line and Hydra's run.dir: for them it is a run.
        self._before = sys.argv, {name for name in LAUNCH_VARIABLES if name in os.environ}
        sys.argv = [sys.argv[0], *overrides]
        with read_write(job):
            job.run.dir = job.runtime.output_dir

    def on_job_end(self, config: Any, job_return: JobReturn, **_: Any) -> None:
        if self.folder is None:
            return
        sys.argv, launched = self._before
        for name in set(LAUNCH_VARIABLES) - launched:
            os.environ.pop(name, None)
        if job_return.status == JobStatus.FAILED:
            from heed.training.callbacks.signals import end_other_processes

            end_other_processes()
            self._note_failure(Path(config.hydra.runtime.output_dir), job_return._return_value)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        # After every job: whatever becomes of the next, this much is known.
        best_first = sort_runs(read_runs(self.folder), "valid_bleu")
        (self.folder / "sweep.txt").write_text(table(best_first) + "\n", encoding="utf-8")

    def _note_failure(self, folder: Path, error: Exception) -> None:
        cause = error
        while isinstance(cause.__cause__, Exception) and not isinstance(cause, HeedError):
            cause = cause.__cause__
        reason = " ".join(str(cause).split()) or type(cause).__name__
        print(f"This job failed: {reason}", file=sys.stderr, flush=True)
        (folder / FAILURE).write_text(f"{reason}\n\n{''.join(format_exception(error))}", encoding="utf-8")

    def _conclude(self) -> None:
        assert self.folder is not None
        result = self.folder / "sweep.txt"
        if result.exists():
            print(f"\nSweep {result}\n\n{result.read_text(encoding='utf-8')}", file=sys.stderr, end="", flush=True)
