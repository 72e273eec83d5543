"""A hyperparameter study in words, and as a table."""

import math
import statistics
from collections.abc import Sequence

from heed.comparison.pairs import MIN_BLEU
from heed.options import format_value
from heed.report.sweep import Configuration, State, StudySummary, TrialSummary, Value, Verdict
from heed.runs.table import format_table


def study_lines(study: StudySummary, *, top: int) -> list[str]:
    """Return the study as text for the terminal, with the ``top`` best trials and all failed ones in a table."""
    lines = [f"{study.name}: {progress(study)}", *headline(study)]
    if study.verdict and not untrained(study):
        lines.append(f"Repeat the winner: {study.verdict.rerun}")
    trials = study.ordered()
    if shown := [trial for place, trial in enumerate(trials) if place < top or trial.state == "failed"]:
        table = trial_table(study, shown)
        is_number = [all(cell[:1] in "0123456789-(" for cell in cells) for cells in zip(*table[1:], strict=True)]
        lines += ["", *format_table(table, "".join("<>"[is_] for is_ in is_number)).splitlines()]
    if hidden := len(trials) - len(shown):
        lines.append(f"… and {hidden} more: --top {len(trials)}")
    return lines


def headline(study: StudySummary) -> list[str]:
    """Return what the study shows, the most important sentence first."""
    warning = untrained(study)
    if study.verdict:
        return [warning] if warning else _verdict(study, study.verdict)
    best, objective = study.best_trials(), study.objectives[0]
    if not best:
        return ["No trial has finished yet." if study.is_searching else "No trial has a score."]
    so_far = " so far" if study.is_searching else ""
    if len(study.objectives) > 1:
        are = "trial is" if len(study.front) == 1 else "trials are"
        return [f"{len(study.front)} {are} on the Pareto front of {' and '.join(study.objectives)}{so_far}."]
    leader = f"Trial {best[0].number} is best{so_far}: {objective} {format_objective(best[0].score)}."
    sentences = [warning or leader]
    if study.confirmed or study.confirming:
        counts = f"{study.confirmed} finished, {study.confirming} running"
        sentences.append(f"The best configurations are trained with further seeds: {counts}.")
    elif not warning:
        sentences.append("Every score is of one seed: small differences between trials may be chance.")
    return sentences


def untrained(study: StudySummary) -> str:
    """Return the sentence that replaces the ranking if even the best model does not translate, by its BLEU; else ""."""
    best: Sequence[TrialSummary | Configuration] = [study.verdict.best] if study.verdict else study.best_trials()
    if not best or len(study.objectives) > 1 or not study.objectives[0].endswith("bleu"):
        return ""
    score = best[0].values[0] if isinstance(best[0], TrialSummary) else best[0].mean
    if score >= MIN_BLEU:
        return ""
    return (
        f"No trial is trained enough to be compared: the best {study.objectives[0]}, {format_objective(score)} "
        f"(trial {best[0].number}), is below {MIN_BLEU:g}. Train longer: raise trainer.max_steps or trainer.max_epochs."
    )


def _verdict(study: StudySummary, verdict: Verdict) -> list[str]:
    winner, seeds = verdict.best, len(verdict.best.valid)
    score = f"{mean_and_sd(winner.valid)} {f'over {seeds} seeds' if seeds > 1 else 'with one seed'}"
    sentences = [f"Trial {winner.number} wins: {study.objectives[0]} {score}."]
    others = [one for one in verdict.scored if one is not winner]
    others.sort(key=lambda one: -one.mean if study.maximize[0] else one.mean)
    return sentences + [_compare_to(study, verdict, rival) for rival in others[:1]]


def _compare_to(study: StudySummary, verdict: Verdict, rival: Configuration) -> str:
    value, interval = verdict.difference(rival)
    name, shown = f"trial {rival.number}", difference_text(verdict, rival)
    if interval is None:
        return f"Its difference from {name} is {shown}; with one seed each, it may be due to chance."
    if interval[0] <= 0 <= interval[1]:
        return f"Its difference from {name}, {shown}, is within the noise over seeds: {name} may be as good."
    is_better = (value > 0) == study.maximize[0]
    return f"It is {'better' if is_better else 'worse'} than {name}: {shown}, beyond the noise over seeds."


def difference_text(verdict: Verdict, other: Configuration) -> str:
    """Return the winner's mean minus another one's and, over several seeds, its 95 % interval."""
    value, interval = verdict.difference(other)
    return signed(value) + (f" [{signed(interval[0])}, {signed(interval[1])}]" if interval else "")


def progress(study: StudySummary) -> str:
    """Return the progress: 23 of 40 trials (17 complete, 5 pruned, 1 running), 2 failed."""
    states: list[State] = ["complete", "pruned", "running", "waiting"]
    counts = ", ".join(f"{study.count(state)} {state}" for state in states if study.count(state))
    text = f"{study.count('complete') + study.count('pruned')} of {study.n_trials} trials"
    text += f" ({counts})" * bool(counts) + f", {study.count('failed')} failed" * bool(study.count("failed"))
    is_idle = study.is_searching and not study.count("running") and not study.verdict
    return f"{text}; no worker is running" if is_idle else text


# ---- the table and its cells


def trial_table(study: StudySummary, trials: Sequence[TrialSummary]) -> list[list[str]]:
    """Return the head and the rows of a table of trials; columns without any value are left out."""
    names = [parameter.name for parameter in study.parameters]
    last = [name.replace("/", ".").rpartition(".")[2] for name in names]
    short = [part if last.count(part) == 1 else name for part, name in zip(last, names, strict=True)]
    rows = [["trial", "state", *study.objectives, *short, "steps", "minutes", "reason"]]
    for trial in trials:
        scores = [format_objective(value) for value in trial.values]
        if trial.state != "complete":  # the last score of a trial that is running or was stopped
            scores = [f"({format_objective(trial.score)})"] * (trial.score is not None)
        row = [str(trial.number), trial.state + f", attempt {trial.attempts}" * (trial.attempts > 1)]
        row += scores + [""] * (len(study.objectives) - len(scores))
        row += [format_setting(trial.params[name]) if name in trial.params else "" for name in names]
        row.append(f"{trial.curve[-1][0]:,}" if trial.curve else "")
        row.append("" if trial.seconds is None else f"{trial.seconds / 60:.1f}")
        rows.append([*row, trial.reason])
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


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


def signed(value: float) -> str:
    """Return a difference of scores with its sign."""
    return f"{'−' if value < 0 else '+'}{format_objective(abs(value))}"


def mean_and_sd(scores: Sequence[float]) -> str:
    """Return the mean and, of several scores, the standard deviation."""
    mean = format_objective(statistics.fmean(scores))
    return f"{mean} ± {format_objective(statistics.stdev(scores))}" if len(scores) > 1 else mean
