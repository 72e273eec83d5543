"""Search hyperparameters: ``heed train -m sweep=…``."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.types import HydraContext
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import NopPruner
from optuna.trial import Trial, TrialState

from heed.compat import hydra_job_error, optuna_heartbeats
from heed.errors import HeedError, failure_reason
from heed.launch.compose import quote
from heed.launch.processes import detect_launch
from heed.progress import print_line
from heed.report.sweep import Configuration, best_first
from heed.report.sweep_page import write_page
from heed.report.sweep_text import format_objective, study_lines
from heed.runs.checkpoints import latest_checkpoint
from heed.runs.claim import is_locked
from heed.runs.results import RESULTS, objective_values, read_results
from heed.sweep.plan import Plan
from heed.sweep.space import draw
from heed.sweep.study import FORMAT, SharedStudy, fail, lock, open_storage, quiet, release
from heed.sweep.summary import read_study
from heed.sweep.verdict import write_verdict
from heed.sweep.workers import ignore_repeated_sigterm, run_workers

MAX_FAILURES = 5
"""A worker stops after this many failed trials in a row, because their values are probably not the cause."""
POLL_SECONDS = 5.0  # between two checks for trials of other workers
PAGE = "sweep.html"
TOP = 10  # trials that are printed at the end

Train = Callable[..., None]
"""`heed.launch.grid.run_job`: trains a run, given its configuration and ``report``."""


def search(arguments: Sequence[str], *, hydra_context: HydraContext, task_function: Train, config: Any) -> None:
    """Run the remaining trials of a study with other workers, and write the verdict; the arguments are a sweeper's.

    Raises:
        HeedError: if an option is wrong, the study exists with other options, or several processes run this search.
    """
    ignore_repeated_sigterm()
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
        """Create or join the study; raise a HeedError if its options differ or the storage cannot be reached."""
        self.plan, self.settings, self.hydra_context, self.train = plan, plan.settings, hydra_context, train
        self.best, self.seeds = plan.settings.confirmation
        self.first_seed = int(plan.config.seed) + 1  # of the confirmation; the search used the seed itself
        plan.folder.mkdir(parents=True, exist_ok=True)
        self.storage = open_storage(plan.folder, self.settings.storage, heartbeat=self.settings.heartbeat)
        self.study = self._join(plan.name, plan.attributes)
        self._printed = {*self._ends()}

    def _join(self, name: str, attributes: dict[str, Any]) -> SharedStudy:
        pruner = NopPruner() if attributes.get("confirms") else self.plan.pruner
        return SharedStudy.join(self.storage, name, attributes, directions=self.settings.directions, pruner=pruner)

    def is_finished(self) -> bool:
        """Return whether all trials of the search and of the confirmation have ended."""
        return all(study.is_finished() for study in self._studies())

    # ---- trials

    def work(self) -> None:
        """Run trials until the study is finished; raise a HeedError if too many in a row have failed."""
        failures = 0
        while not self.is_finished():
            if claimed := self._claim():
                reason = self._run(*claimed)
                failures = failures + 1 if reason else 0
                self.print_ended_trials()
                if failures == MAX_FAILURES:
                    raise HeedError(
                        f"{MAX_FAILURES} trials in a row failed, the last one because: {reason} "
                        "Fix the cause, and repeat the command to continue the study."
                    )
            else:
                time.sleep(POLL_SECONDS)  # other workers run the last trials, or die

    def _claim(self) -> tuple[SharedStudy, Trial] | None:
        """Claim a trial of the search or, after it, of the confirmation."""
        with lock(self.plan.folder):
            for study in self._studies():
                if claimed := study.claim(self.plan.make_sampler):
                    trial, number = claimed
                    if "folder" not in trial.user_attrs:
                        folder, overrides = self._describe(study, trial, number)
                        trial.set_user_attr("overrides", overrides)
                        trial.set_user_attr("folder", folder)
                    return study, trial
        return None

    def _describe(self, study: SharedStudy, trial: Trial, number: int) -> tuple[str, list[str]]:
        """Return the folder of a trial, relative to the study's folder, and its overrides."""
        if study is self.study:
            return str(number), draw(self.plan.space, trial, self.plan.default)
        place, seed = divmod(sum(each.number < number for each in study.trials()), self.seeds)
        one, seed = self.candidates()[place], seed + self.first_seed
        return f"confirm/{one.number}_seed{seed}", [*one.overrides, f"seed={seed}"]

    def _run(self, study: SharedStudy, trial: Trial) -> str:
        """Train the run of a trial, record its end, and return why it failed, or "".

        If this process is stopped, another worker continues the trial.
        """
        try:
            with optuna_heartbeats(trial._trial_id, self.storage):
                values = self._launch(study, trial)
            study.study.tell(trial, values, state=TrialState.PRUNED if values is None else TrialState.COMPLETE)
        except UpdateFinishedTrialError:
            folder = self.plan.folder / trial.user_attrs["folder"]
            print_line(f"{folder} sent no heartbeat for too long: another worker has taken it over.")
        except Exception as error:
            reason = failure_reason(error)
            fail(study.study, trial, reason)
            return reason
        except BaseException:  # Ctrl-C and SIGTERM
            release(study.study, trial._trial_id)
            raise
        return ""

    def _launch(self, study: SharedStudy, trial: Trial) -> list[float] | None:
        """Train the run of a trial as a Hydra job, and return its objectives, or None if it was pruned."""

        def report(step: int, value: float) -> bool:
            with quiet():  # Optuna ignores the steps that a continued trial repeats
                trial.report(value, step)
            return trial.should_prune()

        folder = trial.user_attrs["folder"]
        while is_locked(self.plan.folder / folder):  # its earlier worker trains, but could not send heartbeats
            time.sleep(POLL_SECONDS)
        results = self.plan.folder / folder / RESULTS
        overrides = [
            *self.plan.fixed,
            *trial.user_attrs["overrides"],
            "test=false",  # test sets are for the winner
            f"sweep.trial={quote(f'{study.study.study_name}#{trial.number}')}",
            f"hydra.sweep.dir={quote(self.plan.folder)}",
            f"hydra.sweep.subdir={quote(folder)}",
        ]
        if latest_checkpoint(self.plan.folder / folder) is not None:
            overrides.append("resume=true")
        if not results.exists():  # otherwise the earlier worker has written them
            train = partial(self.train, report=report)
            launcher = Plugins.instance().instantiate_launcher(
                hydra_context=self.hydra_context, task_function=train, config=self.plan.config
            )
            (job,) = launcher.launch([overrides], initial_job_idx=trial.number)
            if job.status == JobStatus.FAILED:
                raise hydra_job_error(job)
        return objective_values(read_results(results), self.settings.objectives) if results.exists() else None

    def print_ended_trials(self) -> None:
        """Print how the trials that have ended since the last call ended, for all workers."""
        budget = self.study.budget
        used = budget - self.study.left()
        for line in self._ends():
            if line not in self._printed:
                print_line(f"{line} (search: {used} of {budget} trials started)")
                self._printed.add(line)

    def _ends(self) -> Iterator[str]:
        """Yield a line about each trial that has ended or waits to be continued."""
        for trial in (trial for study in self._studies() for trial in study.trials()):
            if trial.state == "waiting":
                yield f"Trial {trial.folder} was stopped; a worker continues it."
            elif trial.state == "failed":
                yield f"Trial {trial.folder} failed: {trial.reason or 'its workers died.'}"
            elif trial.state != "running":
                scores = ", ".join(map(format_objective, trial.values))
                yield f"Trial {trial.folder}: {trial.state}, {', '.join(self.settings.objectives)} {scores}"

    # ---- the best configurations with other seeds

    def candidates(self) -> list[Configuration]:
        """Return the best configurations, to be trained again with other seeds."""
        found = best_first(self.study.trials(), maximize=self.settings.directions[0] == "maximize")
        return [Configuration(trial.number, trial.values[0], trial.overrides) for trial in found[: self.best]]

    def _studies(self) -> list[SharedStudy]:
        """Return the search and, once it has ended, the study that trains the best configurations again."""
        if not self.best or not self.study.is_finished() or not (candidates := self.candidates()):
            return [self.study]
        name = " ".join([self.plan.name, "confirm", *(str(one.number) for one in candidates)])
        attributes = {"format": FORMAT, "study": self.plan.name, "confirms": True}
        trials = len(candidates) * self.seeds  # each once, even if it fails
        return [self.study, self._join(name, {**attributes, "n_trials": trials, "points": trials})]

    def conclude(self) -> None:
        """Write the page and, unless another worker has, the verdict; raise a HeedError if no trial is complete."""
        folder = self.plan.folder
        with lock(folder):
            for confirmation in self._studies()[1:]:
                write_verdict(self.plan, self.candidates(), confirmation.trials(), first_seed=self.first_seed)
            summary = read_study(folder, storage=self.settings.storage)
            if not summary.best_trials():
                raise HeedError(f"No trial of the study {folder} is complete: all were pruned or failed.")
            write_page(summary, folder / PAGE)
        print_line("\n".join(["", *study_lines(summary, top=TOP), f"Page: {folder / PAGE}"]))
