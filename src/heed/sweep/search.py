"""Search hyperparameters: ``heed train -m sweep=…``, by one or several workers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.types import HydraContext
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from heed.compat import WINDOWS, hydra_job_error, optuna_heartbeats, usable_cores
from heed.errors import HeedError, failure_reason
from heed.launch import HEED_TRAIN
from heed.launch.compose import quote
from heed.launch.processes import detect_launch
from heed.progress import print_line
from heed.report.sweep import PAGE, TrialSummary, best_first, format_objective, study_lines, write_page
from heed.runs.checkpoints import latest_checkpoint
from heed.runs.folder import is_locked
from heed.runs.results import RESULTS, objective_value, read_results
from heed.sweep.plan import Plan
from heed.sweep.space import draw
from heed.sweep.study import SharedStudy, lock, open_storage, quiet, read_study
from heed.sweep.verdict import write_verdict
from heed.training.callbacks.stopping import Report

MAX_FAILURES = 5
"""A worker stops after this many failed trials in a row, because their values are probably not the cause."""
POLL_SECONDS = 5.0  # between two checks for trials of other workers
WATCH_SECONDS = 2.0  # between two checks of the processes of workers
TOP = 10  # trials that are printed at the end

Train = Callable[..., None]
"""`heed.launch.grid.run_job`: trains a run, given its configuration and ``report``."""


def search(arguments: Sequence[str], *, hydra_context: HydraContext, task_function: Train, config: Any) -> None:
    """Run the remaining trials of a study with other workers, and write the verdict; the arguments are a sweeper's.

    Raises:
        HeedError: if an option is wrong, the study exists with other options, or several processes run this search.
    """
    launch = detect_launch()
    if launch is not None and launch.world_size != 1:
        raise HeedError(
            f"A search under {launch.launcher} would run in each of its {launch.world_size} processes: start it "
            "directly, and give each trial several devices with trainer=ddp."
        )
    plan = Plan(arguments, config=config, config_loader=hydra_context.config_loader)
    plan.check_space()
    worker = StudyWorker(plan, hydra_context, task_function)
    if plan.settings.workers > 1:
        run_workers(plan.settings.workers, plan.folder, watch=worker.print_ended_trials)
    else:
        worker.work()
    if worker.is_finished():
        worker.conclude()


class StudyWorker:
    """A worker of a study: it claims trials and trains their runs. The first to finish writes the verdict."""

    def __init__(self, plan: Plan, hydra_context: HydraContext, train: Train) -> None:
        """Create or join the study; raise a HeedError if its options differ."""
        self.plan, self.settings, self.hydra_context, self.train = plan, plan.settings, hydra_context, train
        plan.folder.mkdir(parents=True, exist_ok=True)
        self.storage = open_storage(plan.folder, heartbeat=self.settings.heartbeat)
        self.study = SharedStudy.join(
            self.storage, plan.name, plan.attributes, maximize=plan.maximize, pruner=plan.pruner
        )
        self._printed = {*self._ends()}

    def work(self) -> None:
        """Run trials until the study is finished; raise a HeedError if too many in a row have failed."""
        failures = 0
        while not self.is_finished():
            if trial := self._claim():
                reason = self._run(trial)
                failures = failures + 1 if reason else 0
                self.print_ended_trials()
                if failures == MAX_FAILURES:
                    raise HeedError(
                        f"{MAX_FAILURES} trials in a row failed, the last one because: {reason} "
                        "Fix the cause, and repeat the command to continue the study."
                    )
            else:
                time.sleep(POLL_SECONDS)  # other workers run the last trials, or die

    def is_finished(self) -> bool:
        """Return whether all trials of the search have ended, and the best ones with other seeds, too."""
        return self.study.is_finished() and not self._unconfirmed()

    def candidates(self) -> list[TrialSummary]:
        """Return the best trials, to be trained again with other seeds."""
        return best_first(self.study.trials(), maximize=self.plan.maximize)[: self.plan.count]

    def _unconfirmed(self) -> list[tuple[TrialSummary, int]]:
        """Return the best trials with each seed that is not queued."""
        queued = [trial.confirms for trial in self.study.all_trials()]
        wanted = product(self.candidates(), self.plan.seeds)
        return [(trial, seed) for trial, seed in wanted if (trial.number, seed) not in queued]

    def _claim(self) -> Trial | None:
        """Claim a trial of the search or, after it, one of the best trials with another seed."""
        with lock(self.plan.folder):
            if self.study.is_finished():
                for trial, seed in self._unconfirmed():
                    self.study.confirm(trial, seed)
            return self.study.claim(self.plan.make_sampler, lambda new: draw(self.plan.space, new, self.plan.default))

    def _run(self, trial: Trial) -> str:
        """Train the run of a trial, record its end, and return why it failed, or "".

        If this process is stopped, another worker continues the trial.
        """
        try:
            with optuna_heartbeats(trial._trial_id, self.storage):
                value = self._launch(trial)
            self.study.study.tell(trial, value, state=TrialState.PRUNED if value is None else TrialState.COMPLETE)
        except UpdateFinishedTrialError:
            print_line(f"Trial {trial.number} sent no heartbeat for too long: another worker has taken it over.")
        except Exception as error:
            reason = failure_reason(error)
            self.study.fail(trial, reason)
            return reason
        except BaseException:  # Ctrl-C and SIGTERM
            self.study.release(trial._trial_id)
            raise
        return ""

    def _launch(self, trial: Trial) -> float | None:
        """Train the run of a trial as a Hydra job, and return its objective, or None if it was pruned."""

        def report(step: int, value: float) -> bool:
            with quiet():  # Optuna ignores the steps that a continued trial repeats
                trial.report(value, step)
            return "confirms" not in trial.user_attrs and trial.should_prune()

        results = self.plan.folder / trial.user_attrs["folder"] / RESULTS
        while is_locked(results.parent):  # its earlier worker trains, but could not send heartbeats
            time.sleep(POLL_SECONDS)
        if not results.exists():  # otherwise the earlier worker has written them
            overrides = [*trial.user_attrs["overrides"], "test=false"]
            self._train(trial.user_attrs["folder"], overrides, trial.number, report)
        return objective_value(read_results(results), self.settings.objective) if results.exists() else None

    def _train(self, folder: str, overrides: Sequence[str], number: int, report: Report) -> None:
        """Train or resume the run of a trial as a Hydra job; raise what the job raises."""
        overrides = [
            *self.plan.fixed,
            *overrides,
            f"sweep.trial={quote(f'{self.plan.name}#{number}')}",
            f"hydra.sweep.dir={quote(self.plan.folder)}",
            f"hydra.sweep.subdir={quote(folder)}",
        ]
        if latest_checkpoint(self.plan.folder / folder) is not None:
            overrides.append("resume=true")
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=self.hydra_context, task_function=partial(self.train, report=report), config=self.plan.config
        )
        (job,) = launcher.launch([overrides], initial_job_idx=number)
        if job.status == JobStatus.FAILED:
            raise hydra_job_error(job)

    def score_tests(self, trial: TrialSummary) -> None:
        """Resume a finished run to translate the test sets, unless it did so or the user has given test=false."""
        results = self.plan.folder / trial.folder / RESULTS
        if not results.exists() or (self.plan.config.test and not read_results(results)["tests"]):
            results.unlink(missing_ok=True)
            self._train(trial.folder, trial.overrides, trial.number, lambda *_: False)

    def print_ended_trials(self) -> None:
        """Print how the trials that have ended since the last call ended, for all workers."""
        for line in self._ends():
            if line not in self._printed:
                started, budget = self.study.budget - self.study.left(), self.study.budget
                print_line(f"{line} (search: {started} of {budget} trials started)")
                self._printed.add(line)

    def _ends(self) -> Iterator[str]:
        """Yield a line about each trial that has ended."""
        for trial in self.study.all_trials():
            if trial.state == "failed":
                yield f"Trial {trial.folder} failed: {trial.reason or 'its workers died.'}"
            elif trial.state in ("complete", "pruned"):
                score = format_objective(trial.score)
                yield f"Trial {trial.folder}: {trial.state}, {self.settings.objective} {score}"

    def conclude(self) -> None:
        """Write the page and, unless another worker has, the verdict; raise a HeedError if no trial is complete."""
        folder, candidates = self.plan.folder, self.candidates()
        with lock(folder):
            if candidates:  # none if the user wants no confirmation
                write_verdict(self.plan, self.study, candidates, self.score_tests)
            summary = read_study(folder)
            if not summary.best_trials():
                raise HeedError(f"No trial of the study {folder} is complete: all were pruned or failed.")
            write_page(summary, folder / PAGE)
        print_line("\n".join(["", *study_lines(summary, top=TOP), f"Page: {folder / PAGE}"]))


# ---- several workers


def run_workers(count: int, folder: Path, *, watch: Callable[[], None]) -> None:
    """Start this process's command ``count`` times with one worker each, and wait for the workers.

    They print to ``worker-N.log`` in the study's folder. If a worker is killed, another one takes over its trial.
    ``watch`` is called every few seconds to print the trials that have ended.

    Raises:
        HeedError: if every worker failed, with the last line of one log.
    """
    logs = [folder / f"worker-{number}.log" for number in range(count)]
    print_line(f"{count} workers print to {logs[0]} and so on. This terminal shows the results of trials.")
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    workers = [_start(number, count, log) for number, log in enumerate(logs)]
    try:
        while any(worker.poll() is None for worker in workers):
            time.sleep(WATCH_SECONDS)
            watch()
    except BaseException as error:
        # On Windows, Ctrl-C has reached the workers, and terminate() would kill them before they save a checkpoint.
        _stop(workers, is_told=WINDOWS and isinstance(error, KeyboardInterrupt))
        raise
    watch()
    if all(worker.returncode for worker in workers):
        last = logs[0].read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise HeedError(f"All workers failed, see {logs[0]}: {' '.join(last)}")


def _stop(workers: Sequence["subprocess.Popen[bytes]"], *, is_told: bool) -> None:
    """Stop the workers, which save a checkpoint and queue their trials; another Ctrl-C ends them immediately."""
    try:
        for worker in workers if not is_told else []:
            worker.terminate()
        for worker in workers:
            worker.wait()
    except KeyboardInterrupt:
        _stop(workers, is_told=is_told)


def _start(number: int, count: int, log: Path) -> "subprocess.Popen[bytes]":
    program_words = ["-m", "heed.launch"] if sys.argv[0] == HEED_TRAIN else [sys.argv[0]]
    words = [word for word in sys.argv[1:] if not word.startswith("sweep.workers=")]
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, *program_words, *words, "sweep.workers=1"],
            env={**os.environ, **worker_devices(number, count)},
            start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which stops them
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def worker_devices(number: int, count: int) -> dict[str, str]:
    """Return the environment that gives one of ``count`` workers its part of the GPUs, or of the CPU cores.

    With more workers than GPUs, several workers share one.
    """
    import torch

    gpus = torch.cuda.device_count()
    if gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        return {"CUDA_VISIBLE_DEVICES": ",".join(visible[number::count] or [visible[number % gpus]])}
    cores = usable_cores()
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores // count)))}
