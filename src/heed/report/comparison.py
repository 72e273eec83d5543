"""The comparison of runs as one HTML page without dependencies: verdict first, then the evidence for it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heed.compare.breakdown import MIN_BUCKET_SENTENCES, BucketingReport, BucketReport
from heed.compare.challenge import Accuracy, choose_challenge
from heed.compare.comparison import Comparison, compare
from heed.compare.models import Evidence, collect_evidence
from heed.compare.pairs import PairReport
from heed.compare.runs import read_other_sides, read_sides
from heed.errors import HeedError, argument
from heed.evaluation.significance import METRICS, Spread, wilson
from heed.evaluation.symptoms import SYMPTOMS
from heed.files import replacing
from heed.report.figures import Mark, Row, dot_plot, heat_map, legend, table
from heed.report.pages import render_page, side_class

MAX_LINES = 12
"""Line numbers in a cell of the table of symptoms."""


def write_comparison(
    groups: Sequence[tuple[str, Sequence[Path]]], *, split: str | None, challenge: str | None = None, out: Path
) -> Comparison:
    """Compare runs, and write ``index.html`` and ``compare.json``.

    Args:
        groups: the name and the run folders of each side.
        split: the test set; None for all that all runs translated, with details about the first one.
        challenge: a challenge set, as for `choose_challenge`.
        out: folder for the files.

    Raises:
        HeedError: if the runs cannot be compared, or the files cannot be written.
    """
    test_set, sides = read_sides(groups, split)
    challenge_set, contrasts = choose_challenge(challenge, sides)
    others, uncovered = read_other_sides(groups, sides, test_set.split)
    if split is not None and others:
        uncovered = [f"The verdict is about {split} only, not about {', '.join(other.split for other, _ in others)}."]
        others = []
    comparison = compare(test_set, sides, others)
    evidence, warnings = collect_evidence(comparison, sides, challenge_set, contrasts)
    comparison = replace(comparison, warnings=[*uncovered, *comparison.warnings, *warnings])
    plain = {**comparison.to_plain(), "challenge": evidence.to_plain([side.name for side in sides])}
    pages = {
        "compare.json": json.dumps(plain, indent=2, ensure_ascii=False) + "\n",
        "index.html": render(comparison, evidence),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            with replacing(out / name) as file:
                file.write_text(page, encoding="utf-8", errors="replace")  # a path may not be valid Unicode
    except OSError as error:
        raise HeedError(f"{argument('out', out)} cannot be written: {error.strerror}.") from error
    return comparison


def render(comparison: Comparison, evidence: Evidence) -> str:
    """Return the HTML of the page."""
    names = [side.name for side in comparison.sides]
    return render_page(
        "compare.html.j2",
        comparison=comparison,
        evidence=evidence,
        names=names,
        legend=legend(names),
        differences=_differences(comparison.pairs),
        paired_tests=_paired_tests(comparison.pairs),
        scores=_scores(comparison),
        score_table=_score_table(comparison),
        bucketings=[(bucketing, _bucketing(bucketing)) for bucketing in comparison.bucketings],
        min_bucket=MIN_BUCKET_SENTENCES,
        challenge=_challenge(evidence),
        facts=[fact for fact in comparison.facts if any(fact.values)],
        symptoms=[_symptom(comparison, symptom) for symptom in SYMPTOMS],
        examples=[(example, _maps(comparison, evidence, number)) for number, example in enumerate(comparison.examples)],
        extractions=_extractions(comparison, evidence),
    )


# ---- figures and tables


def _differences(pairs: Sequence[PairReport]) -> dict[str, Markup]:
    """Return a figure by metric; none if no pair was tested."""
    figures = {}
    for metric in METRICS:
        rows = []
        for pair in pairs:
            if not pair.p:
                continue
            found = pair.differences[metric]
            marks = [Mark(found.value, found.interval, "both", f"{found.value:+.2f}".replace("-", "−"))]
            if found.over_seeds:
                marks.append(Mark(found.value, found.over_sentences, "component", "over sentences"))
                marks.append(Mark(found.value, found.over_seeds, "component", "over seeds"))
            rows.append(Row(pair.better, marks, f"minus {pair.worse}"))
        if rows:
            figures[metric] = dot_plot(rows, name=f"Differences in {metric}", line=0)
    return figures


def _paired_tests(pairs: Sequence[PairReport]) -> Markup:
    """Return a table of the p-values of sacreBLEU's tests, before adjustment; empty without such tests."""
    rows = [
        [
            f"{pair.better} − {pair.worse}",
            metric,
            f"{pair.tests[metric].bootstrap:.4f}",
            f"{pair.tests[metric].randomization:.4f}",
        ]
        for pair in pairs
        if pair.tests
        for metric in METRICS
    ]
    head = ["", "", "p, paired bootstrap", "p, approximate randomization"]
    return table(head, rows, name="p-values of single pairs") if rows else Markup("")


def _scores(comparison: Comparison) -> dict[str, Markup]:
    """Return a figure by metric."""
    return {
        metric: dot_plot(
            [
                Row(
                    side.name,
                    [_spread_mark(side.scores[metric], number, side.scores_by_run[metric])],
                    "one run" if len(side.runs) == 1 else f"{len(side.runs)} runs",
                )
                for number, side in enumerate(comparison.sides)
            ],
            name=metric,
        )
        for metric in METRICS
    }


def _score_table(comparison: Comparison) -> Markup:
    columns = ("mean", "95 % over sentences", "SD over seeds")
    return table(
        ["", *(f"{metric}, {column}" for metric in METRICS for column in columns)],
        [
            [side.name, *(cell for metric in METRICS for cell in _spread_cells(side.scores[metric]))]
            for side in comparison.sides
        ],
        name="Scores of the systems",
    )


def _bucketing(bucketing: BucketingReport) -> Markup:
    rows = [_bucket_row(bucket) for bucket in bucketing.buckets]
    return dot_plot(rows, name=f"BLEU by {bucketing.title}")


def _bucket_row(bucket: BucketReport) -> Row:
    count = f"{bucket.sentences:,} sentence{'s' if bucket.sentences > 1 else ''}"
    if bucket.sentences < MIN_BUCKET_SENTENCES:
        return Row(bucket.label, [], instead=f"{count}: too few to score")
    return Row(bucket.label, [_spread_mark(found, side) for side, found in enumerate(bucket.scores["BLEU"])], count)


def _challenge(evidence: Evidence) -> Markup | None:
    """Return a figure of the accuracy by phenomenon, if any model was evaluated."""
    tags = list(dict.fromkeys(tag for runs in evidence.accuracy for run in runs for tag in run))
    if not tags:
        return None
    rows = []
    for tag in tags:
        by_side = [[run[tag] for run in runs] for runs in evidence.accuracy]
        marks = [_accuracy_mark(side, found) for side, found in enumerate(by_side) if found]
        rows.append(Row(tag, marks, f"{next(found for found in by_side if found)[0].total:,} contrasts"))
    return dot_plot(rows, name="Contrastive accuracy in per cent", line=50)


def _accuracy_mark(side: int, runs: Sequence[Accuracy]) -> Mark:
    """Return the mean accuracy of a side's runs, in per cent."""
    right, total = sum(run.right for run in runs), sum(run.total for run in runs)
    # All runs see the same contrasts, so the sample size of the interval is that of one run.
    low, high = wilson(round(right / len(runs)), runs[0].total)
    others = [100 * run.fraction for run in runs] if len(runs) > 1 else []
    percent = 100 * right / total
    return Mark(percent, (100 * low, 100 * high), side_class(side), f"{percent:.1f} %", others)


def _maps(comparison: Comparison, evidence: Evidence, number: int) -> list[Markup]:
    """Return the heat map of each side for an example; empty for a side without maps and for an empty translation."""
    line = comparison.examples[number].line
    figures = []
    for side, maps in zip(comparison.sides, evidence.maps, strict=True):
        if maps and maps[number].tgt_words:
            found, label = maps[number], f"Attention of {side.name}, line {line}"
            figures.append(heat_map(found.tgt_words, found.src_words, found.weights, name=label))
        else:
            figures.append(Markup(""))
    return figures


# ---- text


def _symptom(comparison: Comparison, symptom: str) -> dict[str, Any]:
    """Return the row of a symptom: for each side the number of lines of each run, and the lines of the worst run."""
    cells = []
    for side in comparison.sides:
        runs = side.symptoms[symptom]
        worst = max(runs, key=len)
        counts = ", ".join(str(len(lines)) for lines in runs) if worst else "0"
        cells.append((counts, _line_numbers(worst) if worst else ""))
    return {"name": symptom, "meaning": SYMPTOMS[symptom], "sides": cells}


def _line_numbers(lines: Sequence[int]) -> str:
    """Return the first line numbers."""
    numbers = ", ".join(map(str, lines[:MAX_LINES])) + (" …" if len(lines) > MAX_LINES else "")
    return f"line{'s' if len(lines) > 1 else ''} {numbers}"


def _extractions(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Return which map of each side is drawn, or why none is."""
    sides = zip(comparison.sides, evidence.extractions, strict=True)
    return [f"{side.name}: {extraction}" for side, extraction in sides if extraction]


def _spread_mark(found: Spread, side: int, by_run: Sequence[float] = ()) -> Mark:
    others = by_run if len(by_run) > 1 else ()
    return Mark(found.mean, found.over_sentences, side_class(side), f"{found.mean:.1f}", others)


def _spread_cells(found: Spread) -> list[str]:
    low, high = found.over_sentences
    return [
        f"{found.mean:.2f}",
        f"{low:.2f} – {high:.2f}",
        "–" if found.over_seeds is None else f"{found.over_seeds:.2f}",
    ]
