"""A hyperparameter study in words, and as a table."""

import math
import statistics
from collections.abc import Sequence

from heed.comparison.pairs import MIN_COMPARED_BLEU
from heed.options import format_value
from heed.report.sweep import State, StudySummary, TrialSummary, Value
from heed.runs.table import format_table


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
    warning, objective = untrained(study), study.objectives[0]
    if verdict := study.verdict:
        scores = study.scores(verdict.winner)
        over = f"over {len(scores)} seeds" if len(scores) > 1 else "with one seed"
        wins = f"Trial {verdict.winner} wins: {objective} {mean_and_sd(scores)} {over}."
        return [warning] if warning else [wins, *verdict.comparison]
    best = study.best_trials()
    if not best:
        return ["No trial has finished yet." if study.is_searching else "No trial has a score."]
    so_far = " so far" if study.is_searching else ""
    if len(study.objectives) > 1:
        are = "trial is" if len(study.front) == 1 else "trials are"
        return [f"{len(study.front)} {are} on the Pareto front of {' and '.join(study.objectives)}{so_far}."]
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
        best, score = found[0].number, found[0].values[0]
    else:
        return ""
    if len(study.objectives) > 1 or not study.objectives[0].endswith("bleu") or score >= MIN_COMPARED_BLEU:
        return ""
    return (
        f"No trial is trained enough to be compared: the best {study.objectives[0]}, {format_objective(score)} "
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
        scores = [format_objective(value) for value in trial.values]
        if trial.state != "complete":  # the last score of a trial that is running or was stopped
            scores = [f"({format_objective(trial.score)})"] * (trial.score is not None)
        row = [str(trial.number), trial.state, *scores, *[""] * (len(study.objectives) - len(scores))]
        row += [format_setting(trial.params[name]) if name in trial.params else "" for name in study.parameters]
        row.append(f"{trial.curve[-1][0]:,}" if trial.curve else "")
        row.append("" if trial.seconds is None else f"{trial.seconds / 60:.1f}")
        rows.append([*row, trial.reason])
    return without_empty_columns(["trial", "state", *study.objectives, *short, "steps", "minutes", "reason"], rows)


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
