"""A hyperparameter study in words and as a table for the terminal."""

import math
import statistics
from collections.abc import Sequence

from heed.compare.pairs import MIN_BLEU
from heed.report.sweep import (
    Configuration,
    SeedGroup,
    State,
    StudySummary,
    TrialSummary,
    Value,
    VerdictSummary,
)

REASON_LENGTH = 120
"""Characters of a reason in the table of the terminal."""


def study_lines(study: StudySummary, *, top: int) -> list[str]:
    """Return the study as text for the terminal.

    Args:
        top: trials in the table.
    """
    lines = [f"{study.name}: {progress(study)}", *headline(study)]
    if study.verdict and study.verdict.rerun:
        lines.append(f"Repeat the winner: {study.verdict.rerun}")
    if study.trials:
        lines += ["", *terminal_table(study, top=top)]
    return lines + seed_lines(study)


def headline(study: StudySummary) -> list[str]:
    """Return what the study shows, the most important sentence first."""
    if study.verdict and len(study.objectives) == 1:
        return _verdict(study, study.verdict)
    best = study.best_trials()
    if not best:
        return ["No trial has finished yet." if study.is_searching else "No trial has a score."]
    so_far = " so far" if study.is_searching else ""
    if len(study.objectives) > 1:
        front = study.pareto_front()
        are = "trial is" if len(front) == 1 else "trials are"
        return [f"{len(front)} {are} on the Pareto front of {_listed(study.objectives)}{so_far}."]
    untrained = _untrained(study, best[0], best[0].score)
    sentences = untrained or [
        f"{_capital(trial_label(best[0]))} is best{so_far}: {study.objectives[0]} {format_score(best[0].score)}."
    ]
    if len(study.arms) > 1 and not untrained:
        firsts = [next((trial for trial in best if trial.arm == arm), None) for arm in study.arm_names]
        scores = [f"{format_score(trial.score)} ({trial_label(trial)})" for trial in firsts if trial]
        sentences.append(f"Best of each arm: {_listed(scores)}.")
    if study.confirmed or study.confirming:
        sentences.append(
            f"The best configurations are trained with further seeds: {study.confirmed} finished, "
            f"{study.confirming} running."
        )
    elif not study.seed_groups() and not untrained:
        sentences.append("Every score is of one seed: small differences between trials may be chance.")
    return sentences


def _verdict(study: StudySummary, verdict: VerdictSummary) -> list[str]:
    winner, objective = verdict.winner, study.objectives[0]
    if untrained := _untrained(study, winner, winner.mean):
        return untrained
    seeds = len(winner.valid)
    score = mean_and_sd(winner.valid) if seeds > 1 else format_score(winner.mean)
    over = f"over {seeds} seeds" if seeds > 1 else "with one seed"
    sentences = [f"{_capital(trial_label(winner))} wins: {objective} {score} {over}."]
    rivals = _rivals(study, verdict)
    sentences += [_compare_to(study, verdict, rival) for rival in rivals]
    found = [one.found for one in verdict.configurations if one.found is not None]
    if rivals and len(found) > 1 and any(len(one.valid) > 1 for one in verdict.configurations):
        sentences.append(
            f"In the search, the scores of these {len(found)} configurations were within "
            f"{format_score(max(found) - min(found))}; their standard deviation over seeds is "
            f"{format_score(verdict.noise)}."
        )
    return sentences


def _untrained(study: StudySummary, best: TrialSummary | Configuration, score: float | None) -> list[str]:
    """Return the sentence that replaces the ranking if even the best model does not translate, by its BLEU."""
    objective = study.objectives[0]
    if not objective.endswith("bleu") or score is None or score >= MIN_BLEU:
        return []
    return [
        f"No trial is trained enough to be compared: the best {objective}, {format_score(score)} "
        f"({trial_label(best)}), is below {MIN_BLEU:g}. Train longer: raise trainer.max_steps or trainer.max_epochs."
    ]


def _rivals(study: StudySummary, verdict: VerdictSummary) -> list[Configuration]:
    """Return the best of the other configurations, and the best one of each other arm."""
    others = sorted(verdict.others, key=lambda one: -one.mean if study.maximize[0] else one.mean)
    arms = [arm for arm in study.arm_names if arm != verdict.winner.arm]
    best = [next((one for one in others if one.arm == arm), None) for arm in arms]
    return others[:1] + [one for one in best if one and one not in others[:1]]


def _compare_to(study: StudySummary, verdict: VerdictSummary, rival: Configuration) -> str:
    value, interval = verdict.difference(rival)
    name = trial_label(rival)
    if interval is None:
        return f"Its difference from {name} is {signed(value)}; with one seed each, it may be due to chance."
    shown = f"{signed(value)} [{signed(interval[0])}, {signed(interval[1])}]"
    if interval[0] <= 0 <= interval[1]:
        return f"Its difference from {name}, {shown}, is within the noise over seeds: {name} may be as good."
    is_better = (value > 0) == study.maximize[0]
    return f"It is {'better' if is_better else 'worse'} than {name}: {shown}, beyond the noise over seeds."


def progress(study: StudySummary) -> str:
    """Return the counts and the estimate of the remaining time in one line."""
    running = study.count("running")
    parts = [counts(study)]
    if study.seconds_left is not None and running:
        parts.append(f"about {rough_duration(study.seconds_left)} left with {running} worker{'s' * (running > 1)}")
    elif study.is_searching and not running and not study.verdict:
        parts.append("no worker is running")
    return "; ".join(parts)


def trial_label(trial: TrialSummary | Configuration) -> str:
    """Return ``trial 7`` or, where there are arms, ``trial 7 of model=rnn``."""
    number = trial.number if isinstance(trial, TrialSummary) else trial.trial
    return f"trial {number} of {trial.arm}" if trial.arm else f"trial {number}"


def format_value(value: Value) -> str:
    """Return the value of an option: at most four significant digits, as it is written on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def format_score(value: float | None) -> str:
    """Return a score with two digits after the point, more for small and none for large ones."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if size >= 0.1 or value == 0 else f"{value:.3g}"


def counts(study: StudySummary) -> str:
    """Return the progress in words: 23 of 40 trials (17 complete, 5 pruned, 1 running), 2 failed."""
    used = study.count("complete") + study.count("pruned")
    states: list[State] = ["complete", "pruned", "running", "waiting"]
    parts = [f"{study.count(state)} {state}" for state in states if study.count(state)]
    text = f"{used} of {study.n_trials} trials"
    if parts:
        text += f" ({', '.join(parts)})"
    # Failed trials do not count towards the budget.
    return f"{text}, {study.count('failed')} failed" if study.count("failed") else text


def rough_duration(seconds: float) -> str:
    """Return an estimate in words, such as 40 s, 25 min or 3.5 h."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def signed(value: float) -> str:
    """Return a difference of scores with its sign."""
    text = format_score(abs(value))
    return f"{'−' if value < 0 else '+'}{text}"


def mean_and_sd(scores: Sequence[float]) -> str:
    """Return the mean and, of several scores, the standard deviation."""
    mean = format_score(statistics.fmean(scores))
    return f"{mean} ± {format_score(statistics.stdev(scores))}" if len(scores) > 1 else mean


# ---- the table of the terminal


def terminal_table(study: StudySummary, *, top: int) -> list[str]:
    """Return the lines of a table of trials, best first; columns without any value are left out.

    Args:
        top: the number of trials; the rest is counted in a last line. Failed trials are always shown.
    """
    trials = study.ordered()
    shown = [trial for place, trial in enumerate(trials) if place < top or trial.state == "failed"]
    parameters = study.varying()
    rows = [
        [
            trial.arm,
            str(trial.number),
            trial.state,
            *score_cells(study, trial),
            *(format_value(trial.params[p.name]) if p.name in trial.params else "" for p in parameters),
            "" if trial.steps is None else f"{trial.steps:,}",
            "" if trial.seconds is None else f"{trial.seconds / 60:.1f}",
            _shortened(trial.reason),
        ]
        for trial in shown
    ]
    names = short_names([parameter.name for parameter in parameters])
    head = ["arm", "trial", "state", *study.objectives, *names, "steps", "minutes", "reason"]
    lines = _aligned(head, rows) if rows else []
    if len(trials) > len(shown):
        lines.append(f"… and {len(trials) - len(shown)} more: --top {len(trials)}")
    return lines


def seed_lines(study: StudySummary) -> list[str]:
    """Return a table of the configurations that were trained with several seeds; empty if there are none."""
    groups = study.seed_groups()
    if not groups:
        return []
    head = ["arm", f"{study.objectives[0]}, mean ± SD", "trials", *short_names(_group_parameters(study, groups))]
    rows = [
        [
            group.arm,
            mean_and_sd([trial.values[0] for trial in group.trials]),
            ", ".join(str(trial.number) for trial in group.trials),
            *(format_value(group.params.get(name)) for name in _group_parameters(study, groups)),
        ]
        for group in groups
    ]
    return ["", "Over seeds:", *_aligned(head, rows)]


def group_settings(study: StudySummary, group: SeedGroup) -> str:
    """Return the settings in which a group differs from the others."""
    names = _group_parameters(study, study.seed_groups())
    return " ".join(f"{name}={format_value(group.params[name])}" for name in names if name in group.params)


def short_names(names: Sequence[str]) -> list[str]:
    """Return the last part of each option's name, or the whole name where the last part is not unique."""
    last = [name.replace("/", ".").rpartition(".")[2] for name in names]
    return [part if last.count(part) == 1 else name for part, name in zip(last, names, strict=True)]


def _group_parameters(study: StudySummary, groups: Sequence[SeedGroup]) -> list[str]:
    return [p.name for p in study.varying() if any(p.name in group.params for group in groups)]


def score_cells(study: StudySummary, trial: TrialSummary) -> list[str]:
    """Return the value of each objective; in brackets the last one of a trial that is running or was stopped."""
    if trial.state == "complete":
        return [format_score(value) for value in trial.values] or [""] * len(study.objectives)
    last = f"({format_score(trial.score)})" if trial.score is not None else ""
    return [last, *[""] * (len(study.objectives) - 1)]


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as text: numbers are aligned right, text left."""
    kept = [i for i, _ in enumerate(head) if any(row[i] for row in rows)]
    columns = [[head[i], *(row[i] for row in rows)] for i in kept]
    padded = []
    for column in columns:
        width = max(map(len, column))
        is_number = all(cell[:1] in "0123456789-(." or not cell for cell in column[1:])
        padded.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _shortened(text: str) -> str:
    return text if len(text) <= REASON_LENGTH else f"{text[: REASON_LENGTH - 1]}…"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
