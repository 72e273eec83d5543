"""Hydra callback for jobs: errors of a single run, and for grids and searches one folder and a table of results."""

import atexit
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from heed.compat import hydra_job_error, hydra_jobs
from heed.errors import HeedError
from heed.launch.compose import Config, compose, quote, search_path
from heed.launch.errors import JobFailedError, failure_reason
from heed.launch.folder import write_hydra_folder
from heed.launch.processes import agree_on_folder, detect_launch, leave_process_group
from heed.plot import spreads
from heed.plot.canvas import save_figure
from heed.progress import print_line
from heed.runs.claim import create
from heed.runs.folder import write_failure
from heed.runs.table import COLUMNS, group_by_setting, read_runs, runs_table, seed_table, sort_runs, without_seed
from heed.training.callbacks.signals import end_other_processes

LAUNCH_VARIABLES = {"LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""Environment variables that Lightning sets for the processes of a job. Where they are set, it starts no processes."""
SWEEP_TABLE = "sweep.txt"
FIGURES = ("sweep.svg", "sweep.pdf")
LABEL_WIDTH = 44  # letters in a line of the labels of the figure
GRID_CHOICE = "grid"
"""Stands in the name of a grid's folder for a choice that the grid varies: ``runs/synthetic-grid``."""


class Jobs(Callback):
    """Raises the error of a single run. Prepares the jobs of a grid or search, and writes the table of a grid."""

    def __init__(self) -> None:
        self.folder: Path | None = None  # of the grid or study; None in a single run
        self._is_grid = False
        self._start, self._argv = time.time(), sys.argv
        self._launch_variables = LAUNCH_VARIABLES & os.environ.keys()

    def on_multirun_start(self, config: Config, **_: Any) -> None:
        self._is_grid = is_grid = config.sweep is None  # a search has its own folders and tables
        matches = is_grid and config.match is not None and config.match_to is None
        if matches and not config.hydra.launcher._target_.endswith(".BasicLauncher"):
            message = f"match={config.match} needs a finished run if jobs run in parallel: give match_to=RUN."
            raise JobFailedError(HeedError(message))
        given, choices = config.hydra.overrides, config.hydra.runtime.choices
        overrides = [*given.task, *search_path(given.hydra)]
        sweeper = config.hydra.sweeper
        if is_grid and sweeper._target_.endswith(".BasicSweeper"):
            _check_jobs([*(f"{name}={values}" for name, values in (sweeper.params or {}).items()), *overrides])
        with read_write(config.hydra):
            for word in OverridesParser.create().parse_overrides(overrides) if is_grid else []:
                if word.is_sweep_override() and word.key_or_group in choices:
                    choices[word.key_or_group] = GRID_CHOICE
        HydraConfig.instance().set_config(config)  # the name of the folder interpolates the choices
        self.folder, home = Path(config.hydra.sweep.dir), Path("runs", config.name)
        if is_grid and self.folder == home:  # a study is continued in the same folder, by any number of workers
            self.folder = agree_on_folder(detect_launch(), lambda: create(home))
        with read_write(config.hydra):
            config.hydra.sweep.dir = str(self.folder)
            # As an override, because a job interpolates its own name, which may contain the model.
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quote(self.folder)}")
            if matches:
                config.hydra.overrides.task.append(f"match_to={quote(self.folder.absolute())}")
        if is_grid:
            atexit.register(self._print_table)  # Hydra does not call on_multirun_end if a job failed

    def on_job_start(self, config: Config, **_: Any) -> None:
        if self.folder is None:
            return
        job = HydraConfig.get()
        overrides = list(job.overrides.task)
        print(f"\nJob {job.job.num}: {' '.join(overrides)}", file=sys.stderr, flush=True)
        # Lightning starts the other processes of the job with sys.argv and hydra.run.dir, as processes of a single run.
        sys.argv = [sys.argv[0], *overrides, *search_path(job.overrides.hydra)]
        with read_write(job):
            job.run.dir = job.runtime.output_dir

    def on_job_end(self, config: Config, job_return: JobReturn, **_: Any) -> None:
        error = hydra_job_error(job_return) if job_return.status == JobStatus.FAILED else None
        if self.folder is None:
            if error is not None:
                raise JobFailedError(error)
            return
        sys.argv = self._argv
        for name in LAUNCH_VARIABLES - self._launch_variables:
            os.environ.pop(name, None)
        if error is not None:
            end_other_processes()
            _record_failure(config, error)
        leave_process_group()
        if self._is_grid:  # after every job, because a later one may end the process
            best_first = sort_runs(read_runs(self.folder), "valid_bleu")
            seeds = seed_table(sort_runs(best_first, "run"), self.folder)
            minutes = f"{(time.time() - self._start) / 60:.1f} minutes for {len(best_first)} jobs"
            tables = [text for text in (runs_table(best_first), seeds, minutes) if text]
            (self.folder / SWEEP_TABLE).write_text("\n\n".join(tables) + "\n", encoding="utf-8")

    def _print_table(self) -> None:
        assert self.folder is not None
        file = self.folder / SWEEP_TABLE
        if file.exists():
            print(f"\nSweep {file}\n\n{file.read_text(encoding='utf-8')}", file=sys.stderr, end="", flush=True)
            for path in draw_scores(self.folder):
                print_line(f"Figure {path}")


def _check_jobs(overrides: Sequence[str]) -> None:
    """Raise a JobFailedError if an option of any job is wrong, before the first job takes its time."""
    from heed.launch.configuration import dry_run  # imports torch

    for number, words in enumerate(hydra_jobs(overrides)):
        try:
            cfg = compose(words)
        except (HydraException, OmegaConfBaseException):  # folders or presets of the user, which only the job finds
            continue
        try:
            if not cfg.init_from:  # otherwise the job has another model's options
                dry_run(cfg)
        except HeedError as error:
            raise JobFailedError(HeedError(f"Job {number}, {' '.join(words)}: {error}")) from error


def draw_scores(folder: Path) -> list[Path]:
    """Draw the BLEU of each setting of a grid, over its seeds, and return the files; none for a single setting."""
    lines = group_by_setting(sort_runs(read_runs(folder), "run"))
    is_tested = all(row["test_bleu"] is not None for line in lines for row in line)
    score = "test_bleu" if is_tested else "valid_bleu"
    names = [fill(without_seed(line[0])["settings"] or line[0]["model"], LABEL_WIDTH) for line in lines]
    groups = {name: [row[score] for row in line] for name, line in zip(names, lines, strict=True)}
    if len(groups) < 2:
        return []
    from matplotlib.figure import Figure

    figure = Figure((7, 1.2 + 0.35 * len(groups)), layout="constrained")
    several = any(len(scores) > 1 for scores in groups.values())
    over = "mean ± standard deviation over seeds" if several else "one seed"
    spreads(groups, x=f"{COLUMNS[score][0]}, {over}", ax=figure.subplots())
    for path in (paths := [folder / name for name in FIGURES]):
        save_figure(figure, path)
    return paths


def _record_failure(config: Config, error: BaseException) -> None:
    """Print why a job failed, and write it to the job's folder, which `claim_folder` removed if nothing was written."""
    reason = failure_reason(error)
    print(f"This job failed: {reason}", file=sys.stderr, flush=True)
    folder = Path(config.hydra.runtime.output_dir)
    folder.mkdir(exist_ok=True)
    write_hydra_folder(OmegaConf.masked_copy(config, [key for key in config if key != "hydra"]), folder)
    write_failure(folder, reason, error)
