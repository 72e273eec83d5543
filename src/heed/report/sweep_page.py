"""A hyperparameter study as one static HTML page: the verdict, the trials, and two figures by matplotlib."""

import io
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heed.files import replacing
from heed.report import sweep_text as text
from heed.report.figures import legend, table
from heed.report.pages import render_template
from heed.report.sweep import Parameter, StudySummary, TrialSummary, Verdict

VARIABLES = ("ink", "soft", "rule", *(f"side-{number}" for number in range(6)))
"""Colours of the style sheet. matplotlib draws the nth as #0000nn, which `svg` replaces: the page has two themes."""
INK, SOFT, RULE, *SIDES = (f"#{number:06x}" for number in range(len(VARIABLES)))
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "heed", "text.parse_math": False, "font.size": 9.5, "text.color": INK,
    "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.facecolor": "none", "figure.facecolor": "none",
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": SOFT, "axes.labelcolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "axes.grid": True, "grid.color": RULE, "lines.linewidth": 1.2,
    "lines.markersize": 5,
}  # fmt: skip
WIDTH, CURVES_HEIGHT, PANEL_HEIGHT, COLUMNS = 8.4, 3.6, 2.2, 3  # inches, and the panels in a row
BEST = 5  # curves of each arm in full colour
FAINT = 0.3  # opacity of the others
WHISKER = 2.5  # scores this many interquartile ranges worse than the lower quartile are drawn at the edge
MARKS = {"complete": "o", "pruned": "x", "failed": "^", "running": "d", "waiting": "d"}


def write_page(study: StudySummary, page: Path) -> None:
    """Write the page of a study; raise a HeedError if it cannot be written."""
    with replacing(page, into_devices=True) as file:
        file.write_text(render(study), encoding="utf-8", errors="replace")


def render(study: StudySummary) -> str:
    """Return the HTML of the page."""
    tests = study.verdict.tests_by_arm if study.verdict else {}
    scores = [(f"{arm} {name}".strip(), found) for arm, sets in tests.items() for name, found in sets.items()]
    return render_template(
        "sweep.html.j2",
        study=study,
        headline=text.headline(study),
        progress=text.progress(study),
        is_untrained=bool(text.untrained(study)),
        legend=legend(study.arms) if len(study.arms) > 1 else "",
        confirmed=_confirmed(study, study.verdict) if study.verdict else "",
        tests=[[name, text.mean_and_sd(one["bleu"]), _each(one["bleu"])] for name, one in scores],
        signatures=sorted({one["signature"] for _, one in scores}),
        curves=learning_curves(study),
        panels=parameter_panels(study),
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
        rows.append([text.trial_label(one), text.format_score(one.found), *scores, minus, "; ".join(one.failed)])
    head = ["", "in the search", "mean ± SD", "each seed", "winner minus it, 95 % interval", "failed"]
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return table([head[i] for i in kept], [[row[i] for i in kept] for row in rows], name="Scores over seeds")


def _each(scores: Sequence[float]) -> str:
    return ", ".join(map(text.format_score, scores))


# ---- the figures


def learning_curves(study: StudySummary) -> Markup:
    """Draw the first objective by optimizer step. A mark at the end of a curve shows the state of the trial."""
    trials = [trial for trial in reversed(study.ordered()) if trial.curve]
    if not trials:
        return Markup("")
    best = [t for arm in study.arms for t in [t for t in study.best_trials() if t.arm == arm][:BEST]]
    limits = _limits([score for trial in trials for _, score in trial.curve], maximize=study.maximize[0])
    with rc_context(STYLE):
        figure = Figure((WIDTH, CURVES_HEIGHT), layout="constrained")
        axes = figure.subplots(subplot_kw={"ylim": limits, "xlabel": "optimizer step"})
        for trial in trials:
            steps, scores = np.transpose(trial.curve)
            style: Any = {"color": _colour(study, trial), "alpha": 1.0 if trial in best else FAINT, "clip_on": False}
            axes.plot(steps, scores := np.clip(scores, *limits), **style)
            axes.plot(steps[-1], scores[-1], MARKS[trial.state], **style)
        return svg(figure, f"{study.objectives[0]} by optimizer step of {len(trials)} trials")


def parameter_panels(study: StudySummary) -> Markup:
    """Draw the first objective by each other objective and each option. Pruned trials are at the worse end."""
    complete, pruned = study.best_trials(), [trial for trial in study.trials if trial.state == "pruned"]
    panels: list[tuple[Parameter, list[tuple[TrialSummary, Any]]]] = [
        (Parameter(name), [(trial, trial.values[i]) for trial in complete])
        for i, name in enumerate(study.objectives)
        if i
    ]
    panels += [
        (parameter, [(t, t.params[parameter.name]) for t in [*pruned, *complete[::-1]] if parameter.name in t.params])
        for parameter in study.parameters
    ]
    if not complete or not panels:
        return Markup("")
    limits = _limits([trial.values[0] for trial in complete], maximize=study.maximize[0])
    rows = -(-len(panels) // COLUMNS)
    with rc_context(STYLE):
        figure = Figure((WIDTH, PANEL_HEIGHT * rows), layout="constrained")
        for number, (parameter, points) in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, COLUMNS, number, title=parameter.name, ylim=limits)
            _draw_panel(axes, study, parameter, points)
        return svg(figure, f"{study.objectives[0]} by {', '.join(parameter.name for parameter, _ in panels)}")


def _draw_panel(
    axes: Axes, study: StudySummary, parameter: Parameter, points: Sequence[tuple[TrialSummary, Any]]
) -> None:
    if parameter.choices:
        is_long = sum(map(len, parameter.choices)) > 24
        axes.set_xticks(range(len(parameter.choices)), parameter.choices, rotation=20 * is_long)
    elif parameter.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    limits = axes.get_ylim()
    for trial, value in points:
        if parameter.choices:  # the golden ratio spreads trials with the same choice evenly
            value = parameter.choices.index(text.format_setting(value)) + 0.4 * (trial.number * 0.618034 % 1 - 0.5)
        score = trial.values[0] if trial.state == "complete" else limits[not study.maximize[0]]
        alpha = FAINT if study.front and trial.number not in study.front else 0.8
        style: Any = {"color": _colour(study, trial), "alpha": alpha, "clip_on": False}
        axes.plot(value, np.clip(score, *limits), MARKS[trial.state], **style)


def _limits(scores: Sequence[float], *, maximize: bool) -> tuple[float, float]:
    """Return the limits of an axis of scores: one diverged trial must not flatten all others."""
    kept = list(scores)
    if len(scores) >= 4:
        lower, _, upper = statistics.quantiles(scores, n=4)
        reach = WHISKER * (upper - lower)
        kept = [score for score in scores if (score >= lower - reach if maximize else score <= upper + reach)]
    margin = 0.05 * (max(kept) - min(kept)) or 0.5
    return min(kept) - margin, max(kept) + margin


def _colour(study: StudySummary, trial: TrialSummary) -> str:
    return SIDES[study.arms.index(trial.arm) % len(SIDES)]


def svg(figure: Figure, name: str) -> Markup:
    """Return a figure as an element of the page, in the colours of its style sheet."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    body = re.sub(r' xmlns(:xlink)?="[^"]*"', "", file.getvalue().partition("<svg")[2])
    body = re.sub("#0000([0-9a-f]{2})", lambda found: f"var(--{VARIABLES[int(found[1], 16)]})", body)
    return Markup(f'<svg role="img" aria-label="{escape(name)}"{body}')
