"""Search hyperparameters: ``heed train -m sweep=…``."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.types import HydraContext, TaskFunction
from omegaconf.errors import OmegaConfBaseException
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from heed.compat import hydra_job_error
from heed.errors import HeedError
from heed.files import replacing
from heed.launch.processes import detect_launch
from heed.progress import print_line
from heed.report.sweep_page import write_page
from heed.report.sweep_text import study_lines
from heed.runs.checkpoints import latest_checkpoint
from heed.sweep.plan import Plan
from heed.sweep.samplers import GridSampler, MakeSampler, build_sampler, is_grid
from heed.sweep.space import suggest_with
from heed.sweep.stored import FORMAT, REASON, VERDICT
from heed.sweep.study import SharedStudy, default_storage, open_storage, original_number
from heed.sweep.summary import read_study
from heed.sweep.trial import reason_of, run_trial
from heed.sweep.verdict import Candidate, confirmation_name, confirmed, decide, rank
from heed.sweep.workers import ignore_repeated_sigterm, run_workers

MAX_FAILURES = 5
"""A worker stops after this many failed trials in a row: the cause is probably not the values of one trial."""
POLL_SECONDS = 5.0
"""Time between two checks for trials of other workers."""
PAGE = "sweep.html"
TOP = 10
"""Trials that are printed at the end."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
LOST_JOB = ("UncompletedJobError", "FailedJobError")
"""What the launcher submitit raises if a job was killed."""

Claim = tuple[SharedStudy, Trial, list[str]]
"""A trial to run, with its study and the overrides of its run."""


def search(arguments: Sequence[str], *, hydra_context: HydraContext, task_function: TaskFunction, config: Any) -> None:
    """Run the remaining trials of a study, together with its other workers, and write the verdict.

    Args:
        arguments: the overrides of the command line, except those of Hydra itself.
        task_function: `heed.launch.command.train`.
        config: Hydra's DictConfig of the command line.

    Raises:
        HeedError: if an option is wrong, or the study exists with other options.
    """
    ignore_repeated_sigterm()
    check_launcher()
    plan = Plan(arguments, config=config, config_loader=hydra_context.config_loader)
    plan.check_space()
    worker = StudyWorker(plan)
    if plan.settings.workers > 1 and plan.launches_here:
        run_workers(plan.settings.workers, plan.folder, watch=worker.print_ended_trials)
    else:
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=partial(run_trial, train=task_function), config=config
        )
        worker.work(launcher)
    if worker.is_finished():
        worker.conclude()


def check_launcher() -> None:
    """Check that this process is not one of several of a launcher.

    Raises:
        HeedError: under torchrun or srun with several processes.
    """
    launch = detect_launch()
    if launch is not None and launch.world_size != 1:
        raise HeedError(
            f"A search under {launch.launcher} would run in each of its {launch.world_size} processes: start it "
            "directly, and give each trial several devices with trainer=ddp."
        )


class StudyWorker:
    """One worker of a study: it claims trials, launches their runs, and may be the one that writes the verdict."""

    def __init__(self, plan: Plan) -> None:
        """Create the study in its storage, or join it.

        Raises:
            HeedError: if it exists with other options, or the storage cannot be reached.
        """
        self.plan, self.settings = plan, plan.settings
        self.studies = {
            arm: SharedStudy.join(
                self.storage,
                f"{plan.name} {arm}".strip(),
                directions=self.settings.directions,
                attributes=plan.attributes(arm),
                pruner=plan.pruner,
                budget=plan.budget(arm),
                counts_failed=is_grid(self.settings),
                seed=plan.config.seed,
            )
            for arm in plan.arms
        }
        self._failures = 0
        self._printed = {trial._trial_id for _, trial in self._ended_trials()}

    @cached_property
    def storage(self) -> RDBStorage:
        """The storage of the study."""
        self.plan.folder.mkdir(parents=True, exist_ok=True)
        url = self.settings.storage or default_storage(self.plan.folder)
        return open_storage(url, heartbeat=self.settings.heartbeat)

    # ---- work

    def has_searched(self) -> bool:
        """Return whether all trials of the search have ended."""
        return all(study.is_finished() for study in self.studies.values())

    def is_finished(self) -> bool:
        """Return whether all trials of the search and of the confirmation have ended."""
        if not self.has_searched():
            return False
        confirmation = self.confirmation()
        return confirmation is None or confirmation.is_finished()

    def work(self, launcher: Any) -> None:
        """Run trials until the study is finished.

        Args:
            launcher: Hydra's.
        """
        while not self.is_finished():
            if batch := self.claim_batch():
                self.launch(launcher, batch)
            else:
                time.sleep(POLL_SECONDS)  # other workers run the last trials, or die

    def claim_batch(self) -> list[Claim]:
        """Claim a trial or, for a launcher of jobs, as many as ``sweep.workers``."""
        batch: list[Claim] = []
        while len(batch) < (1 if self.plan.launches_here else self.settings.workers):
            claimed = self._claim_of_search() or self._claim_of_confirmation()
            if claimed is None:
                break
            batch.append(claimed)
        return batch

    def _claim_of_search(self) -> Claim | None:
        # The arms take turns, so that they have equally many trials at any time.
        for arm in sorted(self.studies, key=lambda arm: self.studies[arm].used()):
            study = self.studies[arm]
            study.recover()
            if trial := study.claim(self._sampler(arm)):
                if "folder" not in trial.user_attrs:
                    number = str(original_number(_frozen(trial)))
                    folder = f"{arm.partition('=')[2]}-{number}".replace("/", "-") if arm else number
                    self._record(trial, folder, self.plan.arms[arm].overrides(suggest_with(trial), self.plan.default))
                return study, trial, self._overrides(study, trial)
        return None

    def _claim_of_confirmation(self) -> Claim | None:
        study = self.confirmation()
        if study is None:
            return None
        study.recover()
        if trial := study.claim(lambda _: RandomSampler()):  # which has nothing to draw
            if "folder" not in trial.user_attrs:
                index, seed = divmod(study.position(original_number(_frozen(trial))), self.settings.seeds)
                seed += self.plan.config.seed + 1  # other seeds than that of the search, which chose the configuration
                candidate = self.candidates()[index]
                own = [*candidate.overrides, f"seed={seed}", "sweep.pruner=null"]
                self._record(trial, f"confirm/{candidate.folder}_seed{seed}", own)
            return study, trial, self._overrides(study, trial)
        return None

    def _sampler(self, arm: str) -> MakeSampler:
        if not is_grid(self.settings):
            return build_sampler(self.settings)
        points, study = list(self.plan.arms[arm].points(self.plan.default)), self.studies[arm]
        return lambda _: GridSampler(points=points, position=lambda trial: study.position(original_number(trial)))

    def _record(self, trial: Trial, folder: str, overrides: list[str]) -> None:
        """Record the folder of a trial's run, relative to that of the study, and the overrides that are its own."""
        trial.set_user_attr("overrides", overrides)
        trial.set_user_attr("folder", folder)

    def _overrides(self, study: SharedStudy, trial: Trial) -> list[str]:
        """Return the overrides with which a trial's run is launched."""
        folder = trial.user_attrs["folder"]
        is_begun = latest_checkpoint(self.plan.folder / folder) is not None
        return [
            *self.plan.fixed,
            *trial.user_attrs["overrides"],
            "test=false",  # test sets are for the winner
            f"sweep.trial='{study.study.study_name}#{trial.number}'",
            f"hydra.sweep.dir='{self.plan.folder}'",
            f"hydra.sweep.subdir='{folder}'",
            *(["resume=true"] if is_begun else []),
        ]

    def launch(self, launcher: Any, batch: Sequence[Claim]) -> None:
        """Launch the runs of trials, wait for them, and print how they ended.

        Raises:
            HeedError: if too many trials in a row have failed.
        """
        failures: list[BaseException | None] = [None] * len(batch)
        try:
            returns: Sequence[JobReturn] = launcher.launch(
                [overrides for _, _, overrides in batch], initial_job_idx=batch[0][1].number
            )
            failures = [hydra_job_error(one) if one.status == JobStatus.FAILED else None for one in returns]
        except (HydraException, OmegaConfBaseException) as error:  # an override cannot be composed
            failures = [error] * len(batch)
        except Exception as error:
            if type(error).__name__ not in LOST_JOB:
                raise
            print_line(f"A job was lost; its trial is continued: {reason_of(error)}")
        for (study, trial, _), failure in zip(batch, failures, strict=True):
            if failure is not None and _frozen(trial).state == TrialState.RUNNING:
                study.fail(trial, reason_of(failure))  # it failed before the run began
            self._count_failures(_frozen(trial))
        self.print_ended_trials()

    def _count_failures(self, trial: FrozenTrial) -> None:
        self._failures = self._failures + 1 if trial.state == TrialState.FAIL else 0
        if self._failures >= MAX_FAILURES:
            raise HeedError(
                f"{MAX_FAILURES} trials in a row failed, the last one because: {trial.user_attrs.get(REASON)} "
                "Fix the cause, and repeat the command to continue the study."
            )

    # ---- reports

    def print_ended_trials(self) -> None:
        """Print how trials have ended since the last call, those of other workers included."""
        used = sum(study.used() for study in self.studies.values())
        budget = sum(study.budget for study in self.studies.values())
        for study, trial in self._ended_trials():
            if trial._trial_id not in self._printed and "folder" in trial.user_attrs:
                end = self._describe_end(trial)
                print_line(end if study not in self.studies.values() else f"{end} ({used} of {budget} trials begun)")
            self._printed.add(trial._trial_id)

    def _ended_trials(self) -> Iterator[tuple[SharedStudy, FrozenTrial]]:
        confirmation = self.confirmation()
        for study in [*self.studies.values(), *([confirmation] if confirmation else [])]:
            for trial in study.study.get_trials(deepcopy=False, states=ENDED):
                yield study, trial

    def _describe_end(self, trial: FrozenTrial) -> str:
        name = trial.user_attrs["folder"]
        if trial.state == TrialState.FAIL:
            reason = trial.user_attrs.get(REASON)
            return f"Trial {name} failed: {reason}" if reason else f"Trial {name} was stopped; a worker continues it."
        values = ", ".join(f"{value:.4g}" for value in trial.values or [])
        return f"Trial {name}: {trial.state.name.lower()}, {', '.join(self.settings.objectives)} {values}"

    # ---- the end

    def candidates(self) -> list[Candidate]:
        """Return the best configurations of each arm, which are trained again with other seeds."""
        return [
            Candidate(arm, number, chain[-1].user_attrs["folder"], chain[-1].user_attrs["overrides"], chain[-1].value)
            for arm, study in self.studies.items()
            for number, chain in rank(study)[: self.settings.best]
        ]

    def confirmation(self) -> SharedStudy | None:
        """Return the study whose trials train the best configurations again; None before the search has ended."""
        if not self.settings.best or not self.has_searched() or not (candidates := self.candidates()):
            return None
        attributes: Mapping[str, Any] = {"format": FORMAT, "study": self.plan.name, "confirms": True}
        return SharedStudy.join(
            self.storage,
            confirmation_name(self.plan.name, candidates),
            directions=self.settings.directions,
            attributes=attributes,
            pruner=self.plan.pruner,
            budget=len(candidates) * self.settings.seeds,
            counts_failed=True,
        )

    def conclude(self) -> None:
        """Write the verdict and the page, and print them. The first worker does it, the others wait for it.

        Raises:
            HeedError: if no trial is complete.
        """
        from filelock import FileLock

        folder = self.plan.folder
        if len(self.settings.objectives) == 1 and not any(map(rank, self.studies.values())):
            raise HeedError(f"No trial of the study {folder} is complete: all were pruned or failed.")
        with FileLock(folder / ".verdict.lock"):
            if (confirmation := self.confirmation()) is not None:
                self._write_verdict(confirmation)
            summary = read_study(folder, storage=self.settings.storage)
            write_page(summary, folder / PAGE)
        print_line("\n".join(["", *study_lines(summary, top=TOP), f"Page: {folder / PAGE}"]))

    def _write_verdict(self, confirmation: SharedStudy) -> None:
        """Write the verdict, unless another worker has written it."""
        file = self.plan.folder / VERDICT
        configurations = confirmed(self.candidates(), confirmation)
        if file.exists():
            written = json.loads(file.read_text(encoding="utf-8"))["configurations"]
            if [one["runs"] for one in written] == [one.runs for one in configurations]:
                return
        trials = sum(len(study.trials()) for study in self.studies.values())
        verdict = decide(self.plan, configurations, trials=trials)
        with replacing(file) as partial:
            partial.write_text(json.dumps(verdict, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _frozen(trial: Trial) -> FrozenTrial:
    return trial.study._storage.get_trial(trial._trial_id)
