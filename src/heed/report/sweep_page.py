"""A hyperparameter study as one static HTML page: verdict first, then the trials that led to it."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from heed.errors import HeedError
from heed.files import replacing
from heed.report import sweep_text as text
from heed.report.figures import legend, table
from heed.report.pages import render_page
from heed.report.sweep import StudySummary, Verdict
from heed.report.sweep_figures import learning_curves, parameter_panels


def write_page(study: StudySummary, page: Path) -> None:
    """Write the page of a study.

    Raises:
        HeedError: if its folder does not exist.
    """
    if not page.parent.is_dir():
        raise HeedError(f"{page} cannot be written: there is no folder {page.parent}; choose another file with --html.")
    with replacing(page, into_devices=True) as file:
        file.write_text(render(study), encoding="utf-8", errors="replace")


def render(study: StudySummary) -> str:
    """Return the HTML of the page."""
    tests = study.verdict.tests_by_arm if study.verdict else {}
    scores = [(f"{arm} {name}".strip(), found) for arm, sets in tests.items() for name, found in sets.items()]
    return render_page(
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
