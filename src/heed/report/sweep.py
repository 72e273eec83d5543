"""A hyperparameter study as data, which `heed.sweep.summary` reads: its trials, and the verdict over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

PAGE = "sweep.html"

State = Literal["complete", "running", "waiting", "pruned", "failed"]
Value = float | int | str | bool | None
"""A value of a searched option."""


@dataclass(frozen=True)
class TrialSummary:
    """A trial, with all its attempts if its worker died. It has the number of the first one."""

    number: int
    state: State
    values: tuple[float, ...]  # the final value of each objective, if there is one
    params: Mapping[str, Value]
    curve: tuple[tuple[int, float], ...] = ()  # (optimizer step, objective), sorted by step; finite values only
    seconds: float | None = None  # duration of the last attempt, if it has ended
    folder: str = ""  # relative to the folder of the study
    overrides: Sequence[str] = ()
    confirms: tuple[int, int] | None = None  # the trial that this one repeats, and its seed; None in the search
    reason: str = ""  # why it failed; empty if its workers died too often

    @property
    def score(self) -> float | None:
        """The value of the first objective; the last reported one of a trial that has not finished."""
        if self.values:
            return self.values[0]
        return self.curve[-1][1] if self.curve else None

    def repeats(self, number: int) -> bool:
        """Return whether this trial is the one of this number with another seed."""
        return self.confirms is not None and self.confirms[0] == number


@dataclass(frozen=True)
class Verdict:
    """The end of a study: which of the trials that were trained with other seeds has the best mean."""

    winner: int  # its number
    runs: Sequence[str]  # folders of all these trainings, those of the best trial first
    comparison: Sequence[str]  # what `heed.compare` says about them on the validation set
    tests: Mapping[str, Mapping[str, Any]]  # ``bleu`` of the winner for each seed, and its ``signature``, by test set
    experiment: str  # the preset of the winner
    rerun: str  # the command that trains it


@dataclass(frozen=True)
class StudySummary:
    """A study."""

    name: str
    objectives: Sequence[str]
    maximize: Sequence[bool]  # for each objective, whether larger is better
    n_trials: int  # the budget
    trials: Sequence[TrialSummary]  # of the search
    parameters: Sequence[str]  # the searched options that differ between trials
    front: Sequence[int] = ()  # the trials on the Pareto front of several objectives
    is_searching: bool = False  # whether trials are running or still to be run
    confirmations: Sequence[TrialSummary] = ()  # trainings of the best trials with other seeds
    verdict: Verdict | None = None
    space: str = ""  # as YAML
    pruner: str = ""

    @property
    def confirmed(self) -> int:
        """The number of finished trainings with other seeds."""
        return sum(trial.state == "complete" for trial in self.confirmations)

    @property
    def confirming(self) -> int:
        """The number of unfinished trainings with other seeds."""
        return sum(trial.state in ("running", "waiting") for trial in self.confirmations)

    def scores(self, number: int) -> list[float]:
        """Return the first objective of a trial with each other seed."""
        return [one.values[0] for one in self.confirmations if one.repeats(number) and one.state == "complete"]

    def count(self, state: State) -> int:
        """Return how many trials of the search are in a state."""
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
