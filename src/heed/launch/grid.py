"""What Hydra calls for a grid or a study: jobs, one at a time, and callbacks for folder, failures and table."""

import atexit
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf, open_dict, read_write

from heed import launch
from heed.compat import hydra_job_error, hydra_jobs
from heed.errors import HeedError, failure_reason
from heed.files import read_yaml
from heed.launch.compose import COMPOSITION_ERRORS, Config, compose, option_name, quote, to_command
from heed.launch.errors import JobFailedError
from heed.launch.processes import agree_on_folder, detect_launch, leave_process_group
from heed.options import with_options
from heed.progress import print_line
from heed.report.grid import print_grid, write_table
from heed.runs.checkpoints import latest_checkpoint
from heed.runs.config import CONFIG_LIMIT, GRID_FILE
from heed.runs.folder import create, creation_order, write_failure
from heed.runs.results import RESULTS
from heed.training.callbacks.stopping import end_other_processes

LAUNCH_VARIABLES = {"LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""Environment variables that Lightning sets for the processes of a job. Where they are set, it starts no processes."""
GRID_CHOICE = "grid"
"""Stands in the name of a grid's folder for a choice that the grid varies: ``runs/synthetic-grid``."""


def run_job(cfg: Config, **options: Any) -> None:
    """Train a job of a grid or a trial of a study, or a single run whose command has a flag of Hydra.

    A grid that goes on (``resume=true``) leaves out the jobs that are finished, and starts those without a checkpoint.
    """
    job: Any = HydraConfig.instance()
    with open_dict(cfg):
        cfg.hydra = job.cfg.hydra
    command = to_command(cfg)
    job.cfg = None  # otherwise Lightning starts other processes of this run in the folder of the grid
    if command.sweep is None and command.options["resume"] and command.folder:
        if (command.folder / RESULTS).exists():
            print_line("This job is finished.")
            return
        if latest_checkpoint(command.folder) is None:
            words = tuple(word for word in command.words if option_name(word) != "resume")
            command = replace(command, words=words, options=with_options(command.options, {"resume": False}))
    launch.train(command, **options)


class GridFolder(Callback):
    """Creates the folder of a grid or, with ``resume=true``, finds that of the same command, and checks all jobs."""

    def on_multirun_start(self, config: Config, **_: Any) -> None:
        try:
            self._start(config)
        except HeedError as error:
            raise JobFailedError(error) from error

    def _start(self, config: Config) -> None:
        is_grid = config.sweep is None  # a search has its own folders
        matches = is_grid and config.match is not None and config.match_to is None
        if matches and not config.hydra.launcher._target_.endswith(".BasicLauncher"):
            raise HeedError(f"match={config.match} needs a finished run if jobs run in parallel: give match_to=RUN.")
        given, choices, sweeper = config.hydra.overrides, config.hydra.runtime.choices, config.hydra.sweeper
        words = [*given.task, *(word for word in given.hydra if option_name(word) == "hydra.searchpath")]
        if is_grid and sweeper._target_.endswith(".BasicSweeper"):
            _check_jobs([*(f"{name}={values}" for name, values in (sweeper.params or {}).items()), *words])
        with read_write(config.hydra):
            for word in OverridesParser.create().parse_overrides(words) if is_grid else []:
                if word.is_sweep_override() and word.key_or_group in choices:
                    choices[word.key_or_group] = GRID_CHOICE
        HydraConfig.instance().set_config(config)  # the name of the folder interpolates the choices
        folder, home = Path(config.hydra.sweep.dir), Path("runs", config.name)
        if is_grid and config.resume:
            folder = newest_grid(home, given.task) if folder == home else folder
            finished = sum(1 for _ in folder.glob(f"*/{RESULTS}"))
            print_line(f"The grid {folder} goes on: {finished} jobs are finished.")
        elif is_grid and folder == home:  # a study is continued in the same folder, by any number of workers
            folder = agree_on_folder(detect_launch(), lambda: create(home))
        with read_write(config.hydra):
            config.hydra.sweep.dir = str(folder)
            # As an override, because a job interpolates its own name, which may contain the model.
            given.hydra.append(f"hydra.sweep.dir={quote(folder)}")
            if matches:
                given.task.append(f"match_to={quote(folder.absolute())}")


def newest_grid(home: Path, words: Sequence[str]) -> Path:
    """Return the newest grid in ``home`` that this command started; raise a HeedError if there is none."""
    found = {
        file.parent: read_yaml(file, limit=CONFIG_LIMIT)["hydra"]["overrides"] for file in home.glob(f"*/{GRID_FILE}")
    }
    grids = [folder for folder, given in found.items() if _started_by(given["task"]) == _started_by(words)]
    if not grids:
        raise HeedError(f"resume=true found no grid of this command in {home}: leave out resume=true to start it.")
    return max(grids, key=creation_order)


def _started_by(words: Sequence[str]) -> list[str]:
    return sorted(word for word in words if option_name(word) not in ("resume", "match_to"))


def _check_jobs(overrides: Sequence[str]) -> None:
    """Raise a HeedError if an option of any job is wrong, before the first job takes its time."""
    from heed.launch.plan import check_options  # imports torch

    for number, words in enumerate(hydra_jobs(overrides)):
        try:
            command = compose(words)
        except COMPOSITION_ERRORS:  # the sentence about it needs the command of the user
            continue
        try:
            if not command.options["init_from"]:  # otherwise the job has another model's options
                check_options(command.options)
        except HeedError as error:
            raise HeedError(f"Job {number}, {' '.join(words)}: {error}") from error


class JobFailures(Callback):
    """Says which job starts and why it failed, and leaves nothing of a job to the next one."""

    def __init__(self) -> None:
        self._argv, self._launch_variables = sys.argv, LAUNCH_VARIABLES & os.environ.keys()

    def on_job_start(self, config: Config, **_: Any) -> None:
        if _is_job(config):
            words = " ".join(config.hydra.overrides.task)
            print(f"\nJob {config.hydra.job.num}: {words}", file=sys.stderr, flush=True)

    def on_job_end(self, config: Config, job_return: JobReturn, **_: Any) -> None:
        error = hydra_job_error(job_return) if job_return.status == JobStatus.FAILED else None
        if not _is_job(config):
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


class GridTable(Callback):
    """Writes the table of a grid after every job, because a later one may end the process, and prints it at the end."""

    def __init__(self) -> None:
        self._start, self._folder = time.time(), Path()

    def on_job_end(self, config: Config, **_: Any) -> None:
        if _is_job(config) and config.sweep is None:
            if self._folder == Path():  # Hydra does not call on_multirun_end if a job failed
                atexit.register(lambda: print_grid(self._folder))
            self._folder = Path(config.hydra.sweep.dir).absolute()
            write_table(self._folder, minutes=(time.time() - self._start) / 60)


def _is_job(config: Config) -> bool:
    return not OmegaConf.is_missing(config.hydra.job, "num")


def _record_failure(config: Config, error: BaseException) -> None:
    """Print why a job failed, and write it to the job's folder, which `claim_folder` removed if nothing was written."""
    reason = failure_reason(error)
    print(f"This job failed: {reason}", file=sys.stderr, flush=True)
    folder = Path(config.hydra.runtime.output_dir)
    folder.mkdir(exist_ok=True)
    to_command(config).write_record(folder)
    write_failure(folder, reason, error)
