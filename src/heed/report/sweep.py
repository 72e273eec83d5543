"""A hyperparameter study as data, which `heed.sweep.study` reads, as text, and as one HTML page."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from heed.comparison.pairs import MIN_COMPARED_BLEU
from heed.files import write_file
from heed.options import format_value
from heed.report.figures import table
from heed.report.pages import render_template
from heed.runs.table import format_table

PAGE = "sweep.html"
SHOWN_CURVES = 6  # trials with a curve, one for each colour of the figures

State = Literal["complete", "running", "waiting", "pruned", "failed"]
Value = float | int | str | bool | None
"""A value of a searched option."""


@dataclass(frozen=True)
class TrialSummary:
    """A trial, with all its attempts if its worker died. It has the number of the first one."""

    number: int
    state: State
    params: Mapping[str, Value]
    value: float = math.nan  # the final value of the objective; NaN if there is none
    curve: tuple[tuple[int, float], ...] = ()  # (optimizer step, objective), sorted by step; finite values only
    seconds: float | None = None  # duration of the last attempt, if it has ended
    folder: str = ""  # relative to the folder of the study
    overrides: Sequence[str] = ()
    confirms: tuple[int, int] | None = None  # the trial that this one repeats, and its seed; None in the search
    reason: str = ""  # why it failed; empty if its workers died too often

    @property
    def score(self) -> float | None:
        """The final value or, of a trial that has not finished, the last reported one."""
        if not math.isnan(self.value):
            return self.value
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
    objective: str
    maximize: bool  # whether larger is better
    n_trials: int  # the budget
    trials: Sequence[TrialSummary]  # of the search
    parameters: Sequence[str]  # the searched options that differ between trials
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
        """Return the objective of a trial with each other seed."""
        return [one.value for one in self.confirmations if one.repeats(number) and one.state == "complete"]

    def count(self, state: State) -> int:
        """Return how many trials of the search are in a state."""
        return sum(trial.state == state for trial in self.trials)

    def best_trials(self) -> list[TrialSummary]:
        """Return the complete trials, best first."""
        return best_first(self.trials, maximize=self.maximize)

    def ordered(self) -> list[TrialSummary]:
        """Return all trials: complete ones best first, then running, pruned and failed ones."""
        best = self.best_trials()
        states: list[State] = ["running", "waiting", "pruned", "failed", "complete"]
        rest = [trial for trial in self.trials if trial not in best]
        return best + sorted(rest, key=lambda trial: (states.index(trial.state), trial.number))


def best_first(trials: Sequence[TrialSummary], *, maximize: bool) -> list[TrialSummary]:
    """Return the complete trials with finite values by their objective; among equals, the earlier one first."""
    scored = [trial for trial in trials if trial.state == "complete" and math.isfinite(trial.value)]
    return sorted(scored, key=lambda trial: (-trial.value if maximize else trial.value, trial.number))


# ---- in words


def study_lines(study: StudySummary, *, top: int) -> list[str]:
    """Return the study as text for the terminal, with the ``top`` best trials and all failed ones in a table."""
    lines = [f"{study.name}: {progress(study)}", *headline(study)]
    if study.verdict and not untrained(study):
        lines.append(f"Repeat the winner: {study.verdict.rerun}")
    trials = study.ordered()
    if shown := [trial for place, trial in enumerate(trials) if place < top or trial.state == "failed"]:
        head, rows = trial_table(study, shown)
        is_number = [all(cell[:1] in "0123456789-(" for cell in cells) for cells in zip(*rows, strict=True)]
        lines += ["", *format_table([head, *rows], "".join("<>"[is_] for is_ in is_number)).splitlines()]
    if hidden := len(trials) - len(shown):
        lines.append(f"… and {hidden} more: --top {len(trials)}")
    return lines


def headline(study: StudySummary) -> list[str]:
    """Return what the study shows, the most important sentence first."""
    warning, objective = untrained(study), study.objective
    if verdict := study.verdict:
        scores = study.scores(verdict.winner)
        over = f"over {len(scores)} seeds" if len(scores) > 1 else "with one seed"
        wins = f"Trial {verdict.winner} wins: {objective} {mean_and_sd(scores)} {over}."
        return [warning] if warning else [wins, *verdict.comparison]
    best = study.best_trials()
    if not best:
        return ["No trial has finished yet." if study.is_searching else "No trial has a score."]
    so_far = " so far" if study.is_searching else ""
    sentences = [warning or f"Trial {best[0].number} is best{so_far}: {objective} {format_objective(best[0].score)}."]
    if study.confirmations:
        counts = f"{study.confirmed} finished, {study.confirming} running"
        sentences.append(f"The best configurations are trained with further seeds: {counts}.")
    elif not warning:
        sentences.append("Every score is of one seed: small differences between trials may be chance.")
    return sentences


def untrained(study: StudySummary) -> str:
    """Return the sentence that replaces the ranking if even the best model does not translate, by its BLEU; else ""."""
    if study.verdict:
        best, score = study.verdict.winner, statistics.fmean(study.scores(study.verdict.winner))
    elif found := study.best_trials():
        best, score = found[0].number, found[0].value
    else:
        return ""
    if not study.objective.endswith("bleu") or score >= MIN_COMPARED_BLEU:
        return ""
    return (
        f"No trial is trained enough to be compared: the best {study.objective}, {format_objective(score)} "
        f"(trial {best}), is below {MIN_COMPARED_BLEU:g}. Train longer: raise trainer.max_steps or trainer.max_epochs."
    )


def progress(study: StudySummary) -> str:
    """Return the progress: 23 of 40 trials (17 complete, 5 pruned, 1 running), 2 failed."""
    states: list[State] = ["complete", "pruned", "running", "waiting"]
    counts = ", ".join(f"{study.count(state)} {state}" for state in states if study.count(state))
    text = f"{study.count('complete') + study.count('pruned')} of {study.n_trials} trials"
    text += f" ({counts})" * bool(counts) + f", {study.count('failed')} failed" * bool(study.count("failed"))
    is_idle = study.is_searching and not study.count("running") and not study.verdict
    return f"{text}; no worker is running" if is_idle else text


# ---- the table and its cells


def trial_table(study: StudySummary, trials: Sequence[TrialSummary]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of trials."""
    last = [name.replace("/", ".").rpartition(".")[2] for name in study.parameters]
    short = [part if last.count(part) == 1 else name for part, name in zip(last, study.parameters, strict=True)]
    rows = []
    for trial in trials:
        score = format_objective(trial.score)
        if score and trial.state != "complete":  # the last score of a trial that is running or was stopped
            score = f"({score})"
        row = [str(trial.number), trial.state, score]
        row += [format_setting(trial.params[name]) if name in trial.params else "" for name in study.parameters]
        row.append(f"{trial.curve[-1][0]:,}" if trial.curve else "")
        row.append("" if trial.seconds is None else f"{trial.seconds / 60:.1f}")
        rows.append([*row, trial.reason])
    return without_empty_columns(["trial", "state", study.objective, *short, "steps", "minutes", "reason"], rows)


def without_empty_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table, without columns that have no value."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return [head[i] for i in kept], [[row[i] for i in kept] for row in rows]


def format_setting(value: Value) -> str:
    """Return the value of an option as it is written on the command line, with at most four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else format_value(value)


def format_objective(value: float | None) -> str:
    """Return a score with two digits after the point, more for small and none for large ones."""
    if value is None or not math.isfinite(value):
        return "" if value is None else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


def mean_and_sd(scores: Sequence[float]) -> str:
    """Return the mean and, of several scores, the standard deviation."""
    mean = format_objective(statistics.fmean(scores))
    return f"{mean} ± {format_objective(statistics.stdev(scores))}" if len(scores) > 1 else mean


# ---- the page


def write_page(study: StudySummary, page: Path) -> None:
    """Write the page of a study; raise a HeedError if it cannot be written."""
    write_file(page, study_page(study).encode(errors="replace"), into_devices=True)


def study_page(study: StudySummary) -> str:
    """Return the HTML of the page."""
    tests = study.verdict.tests if study.verdict else {}
    return render_template(
        "sweep.html.j2",
        study=study,
        headline=headline(study),
        progress=progress(study),
        overrides=[one.overrides for one in study.trials if study.verdict and one.number == study.verdict.winner],
        is_untrained=bool(untrained(study)),
        confirmed=_confirmed(study) if study.verdict else "",
        tests=[[name, mean_and_sd(one["bleu"]), _each(one["bleu"])] for name, one in tests.items()],
        signatures=sorted({one["signature"] for one in tests.values()}),
        curves=learning_curves(study),
        trials=trial_table(study, study.ordered()),
        table=table,
    )


def _confirmed(study: StudySummary) -> Markup:
    """Return a table of the trials that were trained with other seeds."""
    rows = []
    for trial in study.best_trials():
        if again := [one for one in study.confirmations if one.repeats(trial.number)]:
            scores = study.scores(trial.number)
            row = [f"trial {trial.number}", format_objective(trial.score)]
            row += [mean_and_sd(scores), _each(scores)] if scores else ["", ""]
            failed = [f"{one.folder}: {one.reason or 'its workers died'}" for one in again if one.state == "failed"]
            rows.append([*row, "; ".join(failed)])
    head = ["", "in the search", "mean ± SD", "each seed", "failed"]
    return table(*without_empty_columns(head, rows), name="Scores over seeds")


def _each(scores: Sequence[float]) -> str:
    return ", ".join(map(format_objective, scores))


def learning_curves(study: StudySummary) -> list[dict[str, Any]]:
    """Return the objective of the best trials by optimizer step; the script of the page draws them."""
    curves = [
        {"name": f"trial {trial.number}", "steps": steps, "values": values, "clock": [[], [], []]}
        for trial in study.ordered()
        if trial.curve
        for steps, values in [zip(*trial.curve, strict=True)]
    ]
    return [curve | {"side": side} for side, curve in enumerate(curves[:SHOWN_CURVES])]
