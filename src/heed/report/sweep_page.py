"""A hyperparameter study as one HTML page without dependencies: verdict first, then the trials that led to it."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from heed.errors import HeedError
from heed.files import replacing
from heed.report import sweep_text as text
from heed.report.figures import Mark, Row, dot_plot, legend, table
from heed.report.pages import render as render_part
from heed.report.pages import render_page
from heed.report.sweep import Arm, StudySummary, TrialSummary, VerdictSummary, flat_space
from heed.report.sweep_figures import (
    ABSENT,
    arm_class,
    bars,
    highlighted_count,
    learning_curves,
    parallel_coordinates,
    pareto_plot,
    slices,
)

BEST = 10
"""Trials in the table of the best."""


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
    best, verdict = study.best_trials(), study.verdict
    is_multiple = len(study.objectives) > 1
    parallel = parallel_coordinates(study)
    sliced = [slices(study, objective) for objective in range(len(study.objectives))] if best else []
    return render_page(
        "sweep.html.j2",
        study=study,
        headline=text.headline(study),
        progress=text.progress(study),
        legend=legend(study.arm_names) if len(study.arms) > 1 else "",
        verdict=verdict,
        confirmed=_confirmed(study, verdict) if verdict else "",
        differences=_differences(study, verdict) if verdict else "",
        test_scores=_test_scores(verdict) if verdict else "",
        signatures=_signatures(verdict) if verdict else [],
        fronts=[pareto_plot(study, other) for other in range(1, len(study.objectives))] if best else [],
        best_trials=_trials(study, study.pareto_front() if is_multiple else best[:BEST], name="Best trials"),
        seeds=_seeds(study),
        importances=[_importances(study, arm) for arm in study.arms if len(arm.importances) > 1],
        slices=sliced,
        outside=any(" edge" in figures for figures in sliced),
        pruned=study.count("pruned"),
        parallel=parallel,
        absent=ABSENT in parallel,
        highlighted=_highlighted(study),
        curves=learning_curves(study),
        failed=_failed(study),
        all_trials=_trials(study, study.ordered(), name="All trials"),
        arms=[(arm, _space(arm)) for arm in study.arms],
        commands=list(dict.fromkeys(arm.command for arm in study.arms if arm.command)),
    )


# ---- the verdict


def _confirmed(study: StudySummary, verdict: VerdictSummary) -> Markup:
    rows = []
    for one in verdict.configurations:
        if not one.valid:
            rows.append(Row(text.trial_label(one), [], instead=f"failed: {'; '.join(one.failed)}"))
            continue
        many = len(one.valid) > 1
        mean = Mark(one.mean, None, arm_class(study, one.arm), text.mean_and_sd(one.valid), one.valid if many else ())
        marks = [mean]
        if one.found is not None:
            marks.append(Mark(one.found, None, "component", f"search {text.format_score(one.found)}"))
        note = "the winner" if one is verdict.winner else "; ".join(f"failed: {reason}" for reason in one.failed)
        rows.append(Row(text.trial_label(one), marks, note))
    return dot_plot(rows, name=f"{study.objectives[0]} over seeds")


def _differences(study: StudySummary, verdict: VerdictSummary) -> Markup:
    rows = []
    for other in verdict.others:
        value, interval = verdict.difference(other)
        rows.append(Row(f"minus {text.trial_label(other)}", [Mark(value, interval, "both", text.signed(value))]))
    return dot_plot(rows, name="Winner minus others", line=0) if rows else Markup("")


def _test_scores(verdict: VerdictSummary) -> Markup:
    """Return a table of the test scores of each arm's winner; empty without any."""
    rows = [
        [
            " ".join(filter(None, (arm, name, metric))),
            text.mean_and_sd(scores).replace(" ", "\u00a0"),
            ", ".join(map(text.format_score, scores)),
        ]
        for arm, sets in verdict.tests.items()
        for name, found in sets.items()
        for metric, scores in found.items()
        if isinstance(scores, list) and scores
    ]
    return table(["", "mean ± SD", "each seed"], rows, name="Test scores") if rows else Markup("")


def _signatures(verdict: VerdictSummary) -> list[str]:
    """Return the signatures of the test scores."""
    found = [scores.get("signature") for sets in verdict.tests.values() for scores in sets.values()]
    return list(dict.fromkeys(str(signature) for signature in found if signature))


# ---- the trials


def _trials(study: StudySummary, trials: Sequence[TrialSummary], *, name: str) -> Markup:
    """Return a table of trials with the options that vary; columns without any value are left out."""
    if not trials:
        return Markup("")
    parameters = study.varying()
    head = [
        "arm",
        "trial",
        "state",
        *study.objectives,
        *(parameter.name for parameter in parameters),
        "steps",
        "minutes",
    ]
    rows = [
        [
            trial.arm,
            str(trial.number),
            trial.state + (f", attempt {trial.attempts}" if trial.attempts > 1 else ""),
            *text.score_cells(study, trial),
            *(text.format_value(trial.params[p.name]) if p.name in trial.params else "–" for p in parameters),
            "" if trial.steps is None else f"{trial.steps:,}",
            "" if trial.seconds is None else f"{trial.seconds / 60:.1f}",
        ]
        for trial in trials
    ]
    kept = [
        i for i, title in enumerate(head) if any(row[i] not in ("", "complete") for row in rows) or title == "trial"
    ]
    return render_part(
        "sweep_trials.html.j2",
        name=name,
        head=[head[i] for i in kept],
        rows=[[row[i] for i in kept] for row in rows],
        heading=[head[i] for i in kept].index("trial"),
    )


def _seeds(study: StudySummary) -> Markup:
    """Return a table of the groups of trials that differ only in their seed; empty without any."""
    groups = study.seed_groups()
    rows = [
        [
            " ".join(filter(None, (group.arm, text.group_settings(study, group)))) or "all trials",
            text.mean_and_sd([trial.values[0] for trial in group.trials]),
            ", ".join(str(trial.number) for trial in group.trials),
        ]
        for group in groups
    ]
    return table(["settings", "mean ± SD", "trials"], rows, name="Settings over seeds") if rows else Markup("")


def _importances(study: StudySummary, arm: Arm) -> tuple[str, Markup]:
    """Return the title of an arm's importances and their figure."""
    title = f"{arm.name + ': ' if arm.name else ''}{arm.importance_trials} complete trials"
    return title, bars(arm, style=arm_class(study, arm.name), name=f"Importances, {title}")


def _failed(study: StudySummary) -> Markup:
    """Return a table of the failed trials with their reasons; empty without any."""
    rows = [
        [
            text.trial_label(trial).removeprefix("trial "),
            trial.reason or "Its workers died.",
            " ".join(f"{name}={text.format_value(value)}" for name, value in trial.params.items()),
            trial.folder,
        ]
        for trial in study.trials
        if trial.state == "failed"
    ]
    return table(["trial", "reason", "settings", "folder"], rows, name="Failed trials") if rows else Markup("")


def _highlighted(study: StudySummary) -> str:
    """Return a sentence about the lines in full colour, without its end."""
    count = highlighted_count(study)
    of = " of each arm" if len(study.arms) > 1 else ""
    return f"The best {count}{of} are highlighted" if count > 1 else f"The best one{of} is highlighted"


def _space(arm: Arm) -> Markup:
    """Return a table of the search space."""
    rows = [[name, space, condition] for name, space, condition in flat_space(arm.space)]
    head = ["option", "space", "only if"]
    if not any(condition for _, _, condition in rows):
        head, rows = head[:2], [row[:2] for row in rows]
    return table(head, rows, name=f"Search space {arm.name}".strip()) if rows else Markup("")
