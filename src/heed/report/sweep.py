"""A hyperparameter study as data, which `heed.sweep.summary` reads: its trials, and the verdict over seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["complete", "running", "waiting", "pruned", "failed"]
Value = float | int | str | bool | None
"""A value of a searched option."""

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
    """A trial. It has several attempts if its worker died, and the number of the first one."""

    number: int
    state: State
    values: tuple[float, ...]  # the final value of each objective, if there is one
    params: Mapping[str, Value]
    curve: tuple[tuple[int, float], ...] = ()  # (optimizer step, objective), sorted by step; finite values only
    seconds: float | None = None  # duration of the last attempt, if it has ended
    attempts: int = 1
    folder: str = ""  # relative to the folder of the study
    overrides: Sequence[str] = ()
    reason: str = ""  # why it failed; empty if its workers died too often

    @property
    def score(self) -> float | None:
        """The value of the first objective; the last reported one of a trial that has not finished."""
        if self.values:
            return self.values[0]
        return self.curve[-1][1] if self.curve else None


@dataclass(frozen=True)
class Configuration:
    """One of the best trials of a search, and its training with other seeds."""

    number: int  # the number of the trial
    found: float  # its score in the search
    overrides: Sequence[str]
    seeds: Sequence[int] = ()
    valid: Sequence[float] = ()  # a validation score for each seed; empty if all runs failed
    runs: Sequence[str] = ()  # a folder for each seed, relative to the study's
    failed: Sequence[str] = ()  # why runs failed

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.valid)


@dataclass(frozen=True)
class Verdict:
    """The end of a study, the content of ``verdict.json``: the best configurations over seeds, and the winner."""

    configurations: Sequence[Configuration]
    winner: int  # the number of a configuration
    noise: float | None  # standard deviation over seeds, pooled over the configurations; None if each has one seed
    tests: Mapping[str, Mapping[str, Any]]  # ``bleu`` of the winner for each seed, and its ``signature``, by test set
    experiment: str
    rerun: str
    compare: str | None = None  # a page that compares the configurations, relative to the folder of the study
    format: Literal[2] = 2  # version of the file

    @property
    def scored(self) -> list[Configuration]:
        """The configurations with scores."""
        return [one for one in self.configurations if one.valid]

    @property
    def best(self) -> Configuration:
        """The winner."""
        return next(one for one in self.scored if one.number == self.winner)

    def difference(self, other: Configuration) -> tuple[float, tuple[float, float] | None]:
        """Return how far the winner's mean is above another one's, and its 95 % interval over seeds.

        The interval uses the pooled standard deviation. It is None if every configuration has one seed.
        """
        value = self.best.mean - other.mean
        freedom = sum(len(one.valid) - 1 for one in self.scored)
        if not freedom or self.noise is None:
            return value, None
        error = self.noise * math.sqrt(1 / len(self.best.valid) + 1 / len(other.valid))
        half = error * _t_quantile(freedom)
        return value, (value - half, value + half)


def _t_quantile(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t distribution; above the table, its expansion to 1/freedom."""
    z = NORMAL_QUANTILE
    return T_QUANTILES[freedom - 1] if freedom <= len(T_QUANTILES) else z + (z**3 + z) / (4 * freedom)


@dataclass(frozen=True)
class StudySummary:
    """A study."""

    name: str
    objectives: Sequence[str]
    maximize: Sequence[bool]  # for each objective, whether larger is better
    n_trials: int  # the budget
    trials: Sequence[TrialSummary]
    parameters: Sequence[Parameter]  # the searched options that differ between trials
    front: Sequence[int] = ()  # the trials on the Pareto front of several objectives
    is_searching: bool = False  # whether trials are running or still to be run
    confirmed: int = 0  # finished trainings of the best configurations with other seeds
    confirming: int = 0  # unfinished ones
    verdict: Verdict | None = None
    space: str = ""  # as YAML
    pruner: str = ""

    def count(self, state: State) -> int:
        """Return how many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)

    def best_trials(self) -> list[TrialSummary]:
        """Return the complete trials, best first; of a study with several objectives, the Pareto front first."""
        return sorted(best_first(self.trials, maximize=self.maximize[0]), key=lambda t: t.number not in self.front)

    def ordered(self) -> list[TrialSummary]:
        """Return all trials: complete ones best first, then running, pruned and failed ones."""
        best = self.best_trials()
        states: list[State] = ["running", "waiting", "pruned", "failed", "complete"]
        rest = [trial for trial in self.trials if trial not in best]
        return best + sorted(rest, key=lambda trial: (states.index(trial.state), trial.number))


def best_first(trials: Sequence[TrialSummary], *, maximize: bool) -> list[TrialSummary]:
    """Return the complete trials with finite values by their first objective; among equals, the earlier one first."""
    scored = [t for t in trials if t.state == "complete" and t.values and all(map(math.isfinite, t.values))]
    return sorted(scored, key=lambda trial: (-trial.values[0] if maximize else trial.values[0], trial.number))
