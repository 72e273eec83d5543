"""A hyperparameter study as one HTML page: the verdict, the best learning curves, and all trials."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heed.files import write_file
from heed.report import sweep_text as text
from heed.report.figures import table
from heed.report.pages import render_template
from heed.report.sweep import StudySummary

SHOWN_CURVES = 6  # trials with a curve, one for each colour of the figures


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
        overrides=[one.overrides for one in study.trials if study.verdict and one.number == study.verdict.winner],
        is_untrained=bool(text.untrained(study)),
        confirmed=_confirmed(study) if study.verdict else "",
        tests=[[name, text.mean_and_sd(one["bleu"]), _each(one["bleu"])] for name, one in tests.items()],
        signatures=sorted({one["signature"] for one in tests.values()}),
        curves=learning_curves(study),
        trials=text.trial_table(study, study.ordered()),
        table=table,
    )


def _confirmed(study: StudySummary) -> Markup:
    """Return a table of the trials that were trained with other seeds."""
    rows = []
    for trial in study.best_trials():
        if again := [one for one in study.confirmations if one.repeats(trial.number)]:
            scores = study.scores(trial.number)
            row = [f"trial {trial.number}", text.format_objective(trial.score)]
            row += [text.mean_and_sd(scores), _each(scores)] if scores else ["", ""]
            failed = [f"{one.folder}: {one.reason or 'its workers died'}" for one in again if one.state == "failed"]
            rows.append([*row, "; ".join(failed)])
    head = ["", "in the search", "mean ± SD", "each seed", "failed"]
    return table(*text.without_empty_columns(head, rows), name="Scores over seeds")


def _each(scores: Sequence[float]) -> str:
    return ", ".join(map(text.format_objective, scores))


def learning_curves(study: StudySummary) -> list[dict[str, Any]]:
    """Return the first objective of the best trials by optimizer step; the script of the page draws them."""
    curves = [
        {"name": f"trial {trial.number}", "steps": steps, "values": values, "clock": [[], [], []]}
        for trial in study.ordered()
        if trial.curve
        for steps, values in [zip(*trial.curve, strict=True)]
    ]
    return [curve | {"side": side} for side, curve in enumerate(curves[:SHOWN_CURVES])]
