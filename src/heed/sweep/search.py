"""Search the hyperparameters of a study: what ``python train.py -m sweep=…`` does."""

import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, TaskFunction
from omegaconf import OmegaConf, open_dict
from optuna.distributions import CategoricalDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from heed.errors import HeedError
from heed.files import replacing
from heed.launch import program
from heed.launch.differences import find_differences
from heed.launch.dry_run import dry_run
from heed.launch.processes import detect_launch
from heed.options import format_value
from heed.progress import print_line
from heed.report.comparison import write_comparison
from heed.report.sweep_page import write_page
from heed.report.sweep_text import study_lines
from heed.runs.checkpoints import latest_checkpoint
from heed.sweep.preset import preset_text, write_preset
from heed.sweep.sampling import GridSampler, MakeSampler, build_pruner, build_sampler, is_grid
from heed.sweep.settings import SweepSettings
from heed.sweep.space import Space, corners, read_space, suggest_with
from heed.sweep.study import (
    ATTRIBUTES,
    REASON,
    SharedStudy,
    default_storage,
    open_storage,
    original_number,
)
from heed.sweep.summary import read_study
from heed.sweep.trial import plain_options, run_trial
from heed.sweep.verdict import FORMAT as VERDICT_FORMAT
from heed.sweep.verdict import (
    VERDICT,
    Candidate,
    Confirmed,
    confirmation_name,
    confirmed,
    pooled_deviation,
    rank,
    test_summary,
    winners,
)
from heed.sweep.workers import run_workers

ATTRIBUTES_FORMAT = 1
MAX_FAILURES = 5
"""A worker stops after this many failed trials in a row: then the fault is hardly one of the values."""
TOP = 10
"""Trials that are printed at the end."""
PAGE = "sweep.html"
POLL_SECONDS = 5.0
"""Time between two looks at the trials of other workers."""


def search(arguments: Sequence[str], *, hydra_context: HydraContext, task_function: TaskFunction, config: Any) -> None:
    """Run the trials of a study that are left, together with its other workers, and write the verdict.

    Args:
        arguments: the overrides of the command line, except those of Hydra itself.
        task_function: `heed.launch.command.train`.
        config: Hydra's DictConfig of the command line.

    Raises:
        HeedError: if an option is wrong, or the study exists with other options.
    """
    check_launcher()
    study = Study(arguments, hydra_context=hydra_context, config=config)
    study.check_space()
    study.join()
    if study.settings.workers > 1 and study.launches_here:
        run_workers(study.settings.workers, study.folder, watch=study.print_news)
    else:
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=partial(run_trial, train=task_function), config=config
        )
        study.work(launcher)
    if study.is_finished():
        study.conclude()


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


class Study:
    """One search as the command line describes it, and this worker's part of it."""

    def __init__(self, arguments: Sequence[str], *, hydra_context: HydraContext, config: Any) -> None:
        if config.sweep is None:
            raise HeedError("hydra/sweeper=heed needs a search: add sweep=default, or another choice of conf/sweep.")
        self.config, self.config_loader = config, hydra_context.config_loader
        self.settings = SweepSettings(**plain_options(config.sweep))
        self.folder = Path(config.hydra.sweep.dir)
        self.name = self.folder.name
        space, self.fixed = read_space(self.settings.space, arguments)
        self.arms = self._split(space)
        self.pruner = build_pruner(self.settings)
        self.shared: dict[str, SharedStudy] = {}
        self._failures = 0
        self._printed: set[int] = set()

    # ---- set up

    @property
    def launches_here(self) -> bool:
        """Whether trials run in this process, not in jobs of a launcher such as submitit."""
        return bool(self.config.hydra.runtime.choices.get("hydra/launcher", "basic") == "basic")

    def _split(self, space: Space) -> dict[str, Space]:
        """Return one space for each value of ``sweep.compare``; the whole space if there is no such option."""
        key = self.settings.compare
        if key is None:
            return {"": space}
        range_ = space.ranges.get(key)
        if not isinstance(range_, CategoricalDistribution) or len(range_.choices) < 2:
            raise HeedError(f"sweep.compare={key} must be an option of the space with two or more choices.")
        arms = {}
        for choice in range_.choices:
            arm = space.without(key)
            arm.constants = {key: str(choice), **arm.constants}
            arms[f"{key}={choice}"] = arm
        return arms

    def default(self, name: str) -> str:
        """Return the value of an option or group under the fixed options, as text."""
        choices = self.config.hydra.runtime.choices
        return str(choices[name]) if name in choices else format_value(OmegaConf.select(self.config, name))

    def check_space(self) -> None:
        """Check every choice and both ends of every range with the model on the meta device, before data is read.

        Raises:
            HeedError: if the options do not compose, or a value never makes a valid run.
        """
        for arm in self.arms.values():
            messages: dict[tuple[str, Any], str] = {}
            valid: set[tuple[str, Any]] = set()
            for shift in (0, 1):
                for point, overrides in corners(arm, self.default, shift=shift):
                    try:
                        self._dry_run(overrides)
                        valid |= point.items()
                    except HeedError as error:
                        messages |= dict.fromkeys(point.items(), str(error))
                if not messages.keys() - valid:
                    break
            for pair, message in messages.items():
                if pair not in valid:
                    raise HeedError(f"The search space holds {pair[0]}={pair[1]}, which makes no valid run: {message}")

    def _dry_run(self, overrides: Sequence[str]) -> None:
        cfg = self.config_loader.load_sweep_config(self.config, [*self.fixed, *overrides])
        HydraConfig.instance().set_config(cfg)  # for interpolations of choices
        try:
            with open_dict(cfg):
                del cfg["hydra"], cfg["sweep"]
            dry_run(cfg)
        finally:
            HydraConfig.instance().set_config(self.config)

    def join(self) -> None:
        """Create the study in its storage, or join it.

        Raises:
            HeedError: if it exists with other options, or the storage cannot be reached.
        """
        build_sampler(self.settings) if not is_grid(self.settings) else self._grid_sizes
        for arm, space in self.arms.items():
            self.shared[arm] = SharedStudy.join(
                self.storage,
                f"{self.name} {arm}".strip(),
                directions=self.settings.directions,
                attributes=self._attributes(arm, space),
                pruner=self.pruner,
                budget=self._budget(arm),
                counts_failed=is_grid(self.settings),
                seed=self.config.seed,
            )

    @cached_property
    def storage(self) -> Any:
        self.folder.mkdir(parents=True, exist_ok=True)
        return open_storage(self.settings.storage or default_storage(self.folder), heartbeat=self.settings.heartbeat)

    def _budget(self, arm: str) -> int:
        share = -(-self.settings.n_trials // len(self.arms))
        return min(share, self._grid_sizes[arm]) if is_grid(self.settings) else share

    @cached_property
    def _grid_sizes(self) -> dict[str, int]:
        return {arm: sum(1 for _ in space.points(self.default)) for arm, space in self.arms.items()}

    def _attributes(self, arm: str, space: Space) -> dict[str, Any]:
        return {
            "format": ATTRIBUTES_FORMAT,
            "study": self.name,
            "arm": arm,
            "objectives": self.settings.objectives,
            "space": space.to_plain(),
            "fixed": [word for word in self.fixed if not word.startswith("sweep.")],
            "n_trials": self._budget(arm),
            "pruner": type(self.pruner).__name__ if self.settings.pruner else None,
            "command": shlex.join([*program.command(), *sys.argv[1:]]),
        }

    # ---- work

    def is_finished(self) -> bool:
        """Return whether all trials of the search and of the confirmation have ended."""
        if not all(shared.is_finished() for shared in self.shared.values()):
            return False
        confirmation = self.confirmation()
        return confirmation is None or confirmation.is_finished()

    def work(self, launcher: Any) -> None:
        """Run trials until the study is finished: those of the search, then those of the confirmation."""
        while not self.is_finished():
            batch = self.claim_batch()
            if not batch:
                time.sleep(POLL_SECONDS)  # other workers run the last ones, or die
                continue
            launcher.launch([overrides for _, _, overrides in batch], initial_job_idx=batch[0][1].number)
            for shared, trial, _ in batch:
                self._report(shared, shared.study.trials[trial.number])

    def claim_batch(self) -> list[tuple[SharedStudy, Trial, list[str]]]:
        """Claim a trial or, for a launcher of jobs, as many as ``sweep.workers``; each with its overrides."""
        batch: list[tuple[SharedStudy, Trial, list[str]]] = []
        while len(batch) < (1 if self.launches_here else self.settings.workers):
            claimed = self._claim()
            if claimed is None:
                break
            batch.append(claimed)
        return batch

    def _claim(self) -> tuple[SharedStudy, Trial, list[str]] | None:
        # The arms take turns, so that they have equally many trials at any time.
        for arm in sorted(self.arms, key=lambda arm: self.shared[arm].used()):
            shared = self.shared[arm]
            shared.recover()
            if trial := shared.claim(self._sampler(arm)):
                return shared, trial, self._overrides(shared, trial, self._search_run(arm, trial))
        if (confirmation := self.confirmation()) is not None:
            confirmation.recover()
            if trial := confirmation.claim(lambda _: RandomSampler()):  # which has nothing to draw
                return confirmation, trial, self._overrides(confirmation, trial, self._confirm_run(confirmation, trial))
        return None

    def _sampler(self, arm: str) -> MakeSampler:
        if not is_grid(self.settings):
            return build_sampler(self.settings)
        points, shared = list(self.arms[arm].points(self.default)), self.shared[arm]
        return lambda _: GridSampler(points=points, position=lambda trial: shared.position(original_number(trial)))

    def _search_run(self, arm: str, trial: Trial) -> tuple[str, list[str]]:
        """Return the folder of a new trial in the study's folder, and the overrides that are its own."""
        number = original_number(_frozen(trial))
        folder = f"{arm.partition('=')[2]}-{number}" if arm else str(number)
        return folder.replace("/", "-"), self.arms[arm].overrides(suggest_with(trial), self.default)

    def _confirm_run(self, confirmation: SharedStudy, trial: Trial) -> tuple[str, list[str]]:
        index, seed = divmod(confirmation.position(original_number(_frozen(trial))), self.settings.seeds)
        candidate = self.candidates()[index]
        seed += self.config.seed + 1  # other seeds than that of the search, by which the configuration was chosen
        return f"confirm/{candidate.folder}_seed{seed}", [*candidate.overrides, f"seed={seed}", "sweep.pruner=null"]

    def _overrides(self, shared: SharedStudy, trial: Trial, run: tuple[str, list[str]]) -> list[str]:
        """Return the overrides with which a trial's run is launched, and record them with the trial."""
        folder, own = trial.user_attrs.get("folder"), trial.user_attrs.get("overrides")
        if folder is None or own is None:
            folder, own = run
            trial.set_user_attr("overrides", own)
            trial.set_user_attr("folder", folder)
        is_begun = latest_checkpoint(self.folder / folder) is not None
        return [
            *self.fixed,
            *own,
            "test=false",  # test sets are for the winner
            f"sweep.trial='{shared.study.study_name}#{trial.number}'",
            f"hydra.sweep.dir='{self.folder}'",
            f"hydra.sweep.subdir='{folder}'",
            *(["resume=true"] if is_begun else []),
        ]

    def _report(self, shared: SharedStudy, trial: FrozenTrial) -> None:
        """Print how a trial ended. If it is still running, its job ended before it could say so."""
        if trial.state == TrialState.RUNNING:
            shared.fail(Trial(shared.study, trial._trial_id), "The job ended before the run started.")
            trial = shared.study.trials[trial.number]
        self._failures = self._failures + 1 if trial.state == TrialState.FAIL else 0
        print_line(self._end(trial))
        if self._failures >= MAX_FAILURES:
            raise HeedError(
                f"{MAX_FAILURES} trials in a row failed, the last one because: {trial.user_attrs.get(REASON)} "
                "Mend the cause, and give the same command to continue the study."
            )

    def _end(self, trial: FrozenTrial) -> str:
        """Return how a trial ended, in one line."""
        state, name = trial.state.name.lower(), trial.user_attrs["folder"]
        used, budget = sum(s.used() for s in self.shared.values()), sum(s.budget for s in self.shared.values())
        if trial.state == TrialState.FAIL:
            reason = trial.user_attrs.get(REASON)
            return f"Trial {name} failed: {reason}" if reason else f"Trial {name} was stopped; a worker continues it."
        values = ", ".join(f"{value:.4g}" for value in trial.values or [])
        return (
            f"Trial {name}: {state}, {', '.join(self.settings.objectives)} {values} ({used} of {budget} trials begun)"
        )

    # ---- the end

    def candidates(self) -> list[Candidate]:
        """Return the best configurations of each arm, which are confirmed with other seeds."""
        return [
            Candidate(arm, number, chain[-1].user_attrs["folder"], chain[-1].user_attrs["overrides"], chain[-1].value)
            for arm, shared in self.shared.items()
            for number, chain in rank(shared)[: self.settings.best]
        ]

    def confirmation(self) -> SharedStudy | None:
        """Return the study whose trials train the best configurations again; None before the search has ended."""
        if not self.settings.best or not all(shared.is_finished() for shared in self.shared.values()):
            return None
        candidates = self.candidates()
        if not candidates:
            return None
        attributes: Mapping[str, Any] = {"format": ATTRIBUTES_FORMAT, "study": self.name, "confirms": True}
        return SharedStudy.join(
            self.storage,
            confirmation_name(self.name, candidates),
            directions=self.settings.directions,
            attributes=attributes,
            pruner=self.pruner,
            budget=len(candidates) * self.settings.seeds,
            counts_failed=True,
        )

    def conclude(self) -> None:
        """Write the verdict and the page, and print them. The first worker does it, the others wait for it.

        Raises:
            HeedError: if no trial is complete.
        """
        from filelock import FileLock

        if len(self.settings.objectives) == 1 and not any(rank(shared) for shared in self.shared.values()):
            raise HeedError(
                f"No trial of the study {self.name} is complete: all were pruned or failed, see {self.folder}."
            )
        with FileLock(self.folder / ".verdict.lock"):
            confirmation = self.confirmation()
            if confirmation is not None:
                self._conclude_confirmation(confirmed(self.candidates(), confirmation))
            summary = read_study(self.folder, storage=self.settings.storage)
            write_page(summary, self.folder / PAGE)
        print_line("\n".join(["", *study_lines(summary, top=TOP), f"Page: {self.folder / PAGE}"]))

    def _conclude_confirmation(self, configurations: list[Confirmed]) -> None:
        """Write the verdict, unless another worker has written it."""
        file = self.folder / VERDICT
        runs = [run for one in configurations for run in one.runs]
        if file.exists():
            written = json.loads(file.read_text(encoding="utf-8"))["configurations"]
            if [run for one in written for run in one["runs"]] == runs:
                return
        with replacing(file) as partial:
            verdict = self._verdict(configurations)
            partial.write_text(json.dumps(verdict, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _verdict(self, configurations: list[Confirmed]) -> dict[str, Any]:
        """Return the verdict, after the winners have translated the test sets."""
        best = winners(configurations, self.settings.directions[0])
        tests = {one.arm: test_summary(self.folder, one) for one in best}
        path, command = self._write_preset(best[0], configurations)
        return {
            "format": VERDICT_FORMAT,
            "study": self.name,
            "configurations": [one.to_plain() for one in configurations],
            "winner": best[0].trial,
            "winner_arm": best[0].arm,
            "noise": pooled_deviation(configurations),
            "test": tests[best[0].arm],
            "tests_by_arm": tests,
            "experiment": str(path),
            "rerun": shlex.join([*command, f"seed={best[0].seeds[0]}"]),
            "compare": self._compare(configurations, best),
        }

    def _compare(self, configurations: list[Confirmed], best: list[Confirmed]) -> str | None:
        """Write the comparison page of the confirmed configurations, or of the arms' winners on the test set."""
        sides = best if len(best) > 1 else [one for one in configurations if one.runs]
        if len(sides) < 2:
            return None
        groups = [
            (one.arm.partition("=")[2] or f"trial {one.trial}", [self.folder / run for run in one.runs])
            for one in sides
        ]
        write_comparison(groups, split=None if len(best) > 1 else "valid", out=self.folder / "compare")
        return "compare/index.html"

    def _write_preset(self, winner: Confirmed, configurations: list[Confirmed]) -> tuple[Path, list[str]]:
        cfg = self.config_loader.load_sweep_config(self.config, [*self.fixed, *winner.overrides])
        HydraConfig.instance().set_config(cfg)
        with open_dict(cfg):
            del cfg["hydra"], cfg["sweep"]
        differences = find_differences(cfg)
        HydraConfig.instance().set_config(self.config)
        trials = sum(len(shared.trials()) for shared in self.shared.values())
        spread = f" ± {winner.sd:.2g}" if winner.sd is not None else ""
        headline = (
            f"trial {winner.trial} of {trials} of the study {self.name}; {self.settings.objectives[0]} "
            f"{winner.found:.4g} there, {winner.mean:.4g}{spread} over the seeds {', '.join(map(str, winner.seeds))}."
        )
        texts = self.arms[winner.arm].texts_by_name()
        reasons = {name: f"searched in {text}" for name, text in texts.items()}
        return write_preset(preset_text(cfg, differences, reasons=reasons, headline=headline), self.name)

    def print_news(self) -> None:
        """Print the ends of trials since the last call, whichever worker ran them."""
        if confirmation := self.confirmation():
            self._print_ends(confirmation)
        for shared in self.shared.values():
            self._print_ends(shared)

    def _print_ends(self, shared: SharedStudy) -> None:
        ended = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
        for trial in shared.study.get_trials(deepcopy=False, states=ended):
            if trial._trial_id not in self._printed:
                self._printed.add(trial._trial_id)
                if "folder" in trial.user_attrs:
                    print_line(self._end(trial))


def _frozen(trial: Trial) -> FrozenTrial:
    return trial.study._storage.get_trial(trial._trial_id)


__all__ = ["ATTRIBUTES", "search"]
