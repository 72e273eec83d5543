"""A hyperparameter study as data: its trials, what they show, and the verdict over seeds.

`heed.sweep.summary` fills these classes from an Optuna storage, `heed.report.sweep_page` and `heed.report.sweep_text`
show them.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["complete", "pruned", "failed", "running", "waiting"]
Value = float | int | str | bool | None
"""A value of a searched option."""

SEED = "seed"
"""The option whose values are repetitions of one configuration."""

T_QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12)
"""0.975 quantiles of Student's t distribution with 1, 2, … degrees of freedom."""
NORMAL_QUANTILE = 1.96


@dataclass(frozen=True)
class Parameter:
    """A searched option."""

    name: str
    log: bool = False
    choices: tuple[str, ...] = ()
    """The values of a categorical option as text, in the order of its space; empty for a number."""


@dataclass(frozen=True)
class TrialSummary:
    """A trial. One that was resumed after its worker died has the number of its first attempt."""

    number: int
    arm: str
    state: State
    values: tuple[float, ...]
    """The final value of each objective; empty if there is none."""
    params: Mapping[str, Value]
    curve: tuple[tuple[int, float], ...] = ()
    """(optimizer step, objective), sorted by step; finite values only."""
    seconds: float | None = None
    """Duration of the last attempt, until now if it is running."""
    attempts: int = 1
    folder: str = ""
    """Relative to the folder of the study."""
    reason: str = ""
    """Why it failed."""

    @property
    def score(self) -> float | None:
        """The value of the first objective; the last reported one of a trial that has not finished."""
        if self.values:
            return self.values[0]
        return self.curve[-1][1] if self.curve else None

    @property
    def steps(self) -> int | None:
        """The optimizer step of the last report."""
        return self.curve[-1][0] if self.curve else None


@dataclass(frozen=True)
class Arm:
    """One search: a study has several to compare, for example, two model families at the same budget."""

    name: str
    """What is fixed in it, such as model=rnn; empty if there is only one."""
    n_trials: int
    trials: Sequence[TrialSummary]
    space: Mapping[str, Any] = field(default_factory=dict)
    """The space of each option as text; a nested mapping is a space under the condition that is its key."""
    fixed: Sequence[str] = ()
    command: str = ""
    pruner: str = ""
    counts_failed: bool = False
    """Whether a failed trial uses up the budget, as in a grid."""
    importances: Mapping[str, float] = field(default_factory=dict)
    """Fractions that add up to 1; empty if there are too few trials."""
    importance_trials: int = 0
    """How many finished trials the importances are computed from."""

    @property
    def to_start(self) -> int:
        """Trials of the budget that no worker has started, or that wait to be continued."""
        return max(self.n_trials - sum(map(self._uses_budget, self.trials)), 0)

    def _uses_budget(self, trial: TrialSummary) -> bool:
        if trial.state == "failed":
            # Without a reason, its workers died again and again.
            return self.counts_failed or not trial.reason
        return trial.state != "waiting"


@dataclass(frozen=True)
class Configuration:
    """A configuration that was trained again with several seeds."""

    trial: int
    arm: str
    found: float | None
    """Its score in the search."""
    overrides: Sequence[str]
    seeds: Sequence[int]
    valid: Sequence[float]
    """A validation score for each seed; empty if all its runs failed."""
    failed: Sequence[str] = ()
    """Why runs failed."""

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.valid)


@dataclass(frozen=True)
class VerdictSummary:
    """The end of a study: the best configurations over seeds, and the test scores of the winner."""

    configurations: Sequence[Configuration]
    winner: Configuration
    noise: float
    """Standard deviation over seeds, pooled over the configurations."""
    tests: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Arm → test set → metric → scores of each seed of the arm's winner; beside the metrics, their ``signature``."""
    experiment: str = ""
    rerun: str = ""
    compare: str = ""
    """A page that compares the winners of the arms, relative to the folder of the study."""

    @property
    def others(self) -> list[Configuration]:
        """All configurations with scores but the winner."""
        return [one for one in self.configurations if one.valid and one is not self.winner]

    def difference(self, other: Configuration) -> tuple[float, tuple[float, float] | None]:
        """Return how far the winner's mean is above another one's, and its 95 % interval over seeds.

        The interval uses the pooled standard deviation. It is None if every configuration has one seed.
        """
        value = self.winner.mean - other.mean
        freedom = sum(len(one.valid) - 1 for one in self.configurations if one.valid)
        if not freedom:
            return value, None
        error = self.noise * math.sqrt(1 / len(self.winner.valid) + 1 / len(other.valid))
        half = error * (T_QUANTILES[freedom - 1] if freedom <= len(T_QUANTILES) else NORMAL_QUANTILE)
        return value, (value - half, value + half)


@dataclass(frozen=True)
class SeedGroup:
    """Finished trials that differ only in their seed."""

    arm: str
    params: Mapping[str, Value]
    trials: Sequence[TrialSummary]
    mean: float
    sd: float


@dataclass(frozen=True)
class StudySummary:
    """A study of one or more arms."""

    name: str
    objectives: Sequence[str]
    maximize: Sequence[bool]
    """For each objective, whether larger is better."""
    arms: Sequence[Arm]
    parameters: Sequence[Parameter]
    seconds_left: float | None = None
    """Estimate of the time until the budget is used up; None if it cannot be estimated or nothing is left."""
    confirmed: int = 0
    """Finished trainings of the best configurations with further seeds."""
    confirming: int = 0
    """Trainings of the best configurations that are running or wait to be continued."""
    verdict: VerdictSummary | None = None

    @property
    def trials(self) -> list[TrialSummary]:
        return [trial for arm in self.arms for trial in arm.trials]

    @property
    def n_trials(self) -> int:
        """The budget of all arms."""
        return sum(arm.n_trials for arm in self.arms)

    @property
    def is_searching(self) -> bool:
        """Whether a trial is running, waiting or still to be started."""
        return any(arm.to_start for arm in self.arms) or any(t.state in ("running", "waiting") for t in self.trials)

    @property
    def arm_names(self) -> list[str]:
        return [arm.name for arm in self.arms]

    def count(self, state: State) -> int:
        """Return how many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)

    def sort_key(self, trial: TrialSummary, objective: int = 0) -> float:
        """Return a key that sorts trials by an objective, best first. Trials without a value come last."""
        value = trial.values[objective] if trial.values else trial.score if objective == 0 else None
        if value is None or not math.isfinite(value):
            return math.inf
        return -value if self.maximize[objective] else value

    def best_trials(self) -> list[TrialSummary]:
        """Return the complete trials, best first; of a study with several objectives, the Pareto front first."""
        complete = sorted((t for t in self.trials if _is_scored(t)), key=self.sort_key)
        if len(self.objectives) == 1:
            return complete
        front = {id(trial) for trial in self.pareto_front()}
        return sorted(complete, key=lambda trial: id(trial) not in front)

    def pareto_front(self) -> list[TrialSummary]:
        """Return the complete trials that no other one equals or exceeds in all objectives, and exceeds in one."""
        trials = [trial for trial in self.trials if _is_scored(trial)]
        points = [tuple(self.sort_key(trial, i) for i in range(len(self.objectives))) for trial in trials]
        front = [
            trial
            for trial, point in zip(trials, points, strict=True)
            if not any(other != point and all(map(float.__le__, other, point)) for other in points)
        ]
        return sorted(front, key=self.sort_key)

    def ordered(self) -> list[TrialSummary]:
        """Return all trials: complete ones best first, then running, pruned and failed ones."""
        order: list[State] = ["running", "waiting", "pruned", "failed", "complete"]
        best = self.best_trials()
        known = {id(trial) for trial in best}
        rest = [trial for trial in self.trials if id(trial) not in known]
        return best + sorted(rest, key=lambda trial: (order.index(trial.state), self.sort_key(trial), trial.number))

    def varying(self) -> list[Parameter]:
        """Return the parameters that differ between trials, or exist in some trials only."""
        trials = [trial for trial in self.trials if trial.params]
        return [p for p in self.parameters if len({str(trial.params.get(p.name)) for trial in trials}) > 1]

    def seed_groups(self) -> list[SeedGroup]:
        """Return the groups of complete trials that differ only in `SEED`, best mean first."""
        groups: dict[tuple[str, ...], list[TrialSummary]] = {}
        for trial in self.trials:
            if _is_scored(trial) and SEED in trial.params:
                others = sorted(f"{name}={value}" for name, value in trial.params.items() if name != SEED)
                groups.setdefault((trial.arm, *others), []).append(trial)
        found = [
            SeedGroup(
                arm=trials[0].arm,
                params={name: value for name, value in trials[0].params.items() if name != SEED},
                trials=trials,
                mean=statistics.fmean(scores),
                sd=statistics.stdev(scores),
            )
            for trials in groups.values()
            if len(trials) > 1 and (scores := [trial.values[0] for trial in trials])
        ]
        return sorted(found, key=lambda group: -group.mean if self.maximize[0] else group.mean)


def flat_space(space: Mapping[str, Any], condition: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (option, its space, the condition under which it is searched or "")."""
    for name, value in space.items():
        if isinstance(value, Mapping):
            yield from flat_space(value, " and ".join(filter(None, (condition, name))))
        else:
            yield name, str(value), condition


def _is_scored(trial: TrialSummary) -> bool:
    return trial.state == "complete" and bool(trial.values) and all(map(math.isfinite, trial.values))
