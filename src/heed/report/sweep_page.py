"""A hyperparameter study as one HTML page: the verdict, the trials, and figures."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heed.files import write_file
from heed.report import sweep_text as text
from heed.report.figures import table
from heed.report.pages import render_template
from heed.report.sweep import Parameter, StudySummary, TrialSummary, Verdict

BEST = 5  # curves in full colour
WHISKER = 2.5  # scores this many interquartile ranges worse than the lower quartile are drawn at the edge


def write_page(study: StudySummary, page: Path) -> None:
    """Write the page of a study; raise a HeedError if it cannot be written."""
    write_file(page, render(study).encode(errors="replace"), into_devices=True)


def render(study: StudySummary) -> str:
    """Return the HTML of the page."""
    tests = study.verdict.tests if study.verdict else {}
    return render_template(
        "sweep.html.j2",
        study=study,
        headline=text.headline(study),
        progress=text.progress(study),
        is_untrained=bool(text.untrained(study)),
        confirmed=_confirmed(study, study.verdict) if study.verdict else "",
        tests=[[name, text.mean_and_sd(one["bleu"]), _each(one["bleu"])] for name, one in tests.items()],
        signatures=sorted({one["signature"] for one in tests.values()}),
        data={"curves": learning_curves(study), "panels": parameter_panels(study)},
        trials=text.trial_table(study, study.ordered()),
        table=table,
    )


def _confirmed(study: StudySummary, verdict: Verdict) -> Markup:
    """Return a table of the configurations that were trained with other seeds."""
    rows = []
    for one in verdict.configurations:
        scores = [text.mean_and_sd(one.valid), _each(one.valid)] if one.valid else ["", ""]
        is_compared = one.valid and one is not verdict.best and not text.untrained(study)
        minus = text.difference_text(verdict, one) if is_compared else ""
        rows.append([f"trial {one.number}", text.format_objective(one.found), *scores, minus, "; ".join(one.failed)])
    head = ["", "in the search", "mean ± SD", "each seed", "winner minus it, 95 % interval", "failed"]
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return table([head[i] for i in kept], [[row[i] for i in kept] for row in rows], name="Scores over seeds")


def _each(scores: Sequence[float]) -> str:
    return ", ".join(map(text.format_objective, scores))


# ---- the data of the figures, which the script of the page draws


def learning_curves(study: StudySummary) -> dict[str, Any]:
    """Return the first objective of each trial by optimizer step, best trials last, and the limits of the scores."""
    trials = [trial for trial in reversed(study.ordered()) if trial.curve]
    best = study.best_trials()[:BEST]
    curves = [{**_mark(trial), "points": trial.curve, "faint": trial not in best} for trial in trials]
    scores = [score for trial in trials for _, score in trial.curve]
    limits = _limits(scores, maximize=study.maximize[0]) if scores else None
    return {"objective": study.objectives[0], "limits": limits, "curves": curves}


def parameter_panels(study: StudySummary) -> list[dict[str, Any]]:
    """Return the first objective by each other objective and each option. Pruned trials are at the worse end."""
    complete, pruned = study.best_trials(), [trial for trial in study.trials if trial.state == "pruned"]
    if not complete:
        return []
    limits = _limits([trial.values[0] for trial in complete], maximize=study.maximize[0])
    panels: list[tuple[Parameter, list[tuple[TrialSummary, Any]]]] = [
        (Parameter(name), [(trial, trial.values[i]) for trial in complete])
        for i, name in list(enumerate(study.objectives))[1:]
    ]
    panels += [
        (parameter, [(t, t.params[parameter.name]) for t in [*pruned, *complete[::-1]] if parameter.name in t.params])
        for parameter in study.parameters
    ]
    return [
        {**vars(parameter), "limits": limits, "points": points}
        for parameter, pairs in panels
        if (points := [point for trial, value in pairs if (point := _point(study, parameter, trial, value, limits))])
    ]


def _point(
    study: StudySummary, parameter: Parameter, trial: TrialSummary, value: Any, limits: tuple[float, float]
) -> dict[str, Any] | None:
    """Return the mark of a trial; None for a value that has no place on the axis."""
    if parameter.choices:  # the golden ratio spreads trials with the same choice evenly
        value = parameter.choices.index(text.format_setting(value)) + 0.4 * (trial.number * 0.618034 % 1 - 0.5)
    score = trial.values[0] if trial.state == "complete" else limits[not study.maximize[0]]
    point = {"x": value, "y": score, "faint": bool(study.front) and trial.number not in study.front}
    return _mark(trial) | point if value is not None and math.isfinite(value) else None


def _mark(trial: TrialSummary) -> dict[str, Any]:
    return {"name": f"trial {trial.number}", "state": trial.state}


def _limits(scores: Sequence[float], *, maximize: bool) -> tuple[float, float]:
    """Return the limits of an axis of scores: one diverged trial must not flatten all others."""
    kept = list(scores)
    if len(scores) >= 4:
        lower, _, upper = statistics.quantiles(scores, n=4)
        reach = WHISKER * (upper - lower)
        kept = [score for score in scores if (score >= lower - reach if maximize else score <= upper + reach)]
    margin = 0.05 * (max(kept) - min(kept)) or 0.5
    return min(kept) - margin, max(kept) + margin
