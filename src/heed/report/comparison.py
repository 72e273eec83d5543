"""The comparison of runs as one HTML page without dependencies: verdict first, then the evidence for it."""

import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, TypeAlias

from markupsafe import Markup

from heed.comparison.challenge import Accuracy, Evidence, choose_challenge, collect_evidence
from heed.comparison.comparison import MIN_BUCKET_SENTENCES, BucketingReport, Comparison, compare
from heed.comparison.confounders import describe_options
from heed.comparison.pairs import PairReport
from heed.comparison.runs import group_runs, read_other_sides, read_sides
from heed.errors import HeedError, argument
from heed.evaluation.metrics import format_score
from heed.evaluation.scores import Metric
from heed.evaluation.significance import TESTED, wilson
from heed.evaluation.symptoms import SYMPTOMS
from heed.files import write_file
from heed.report.curves import explained_damage, head_charts, read_clock, read_curve
from heed.report.figures import FigureRow, Mark, dot_plot, heat_map, legend, table
from heed.report.pages import render_template, side_class
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.records import SPEED, read_csv
from heed.runs.table import format_table

AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class ComparisonReport:
    """A comparison and its page, which notebooks show."""

    comparison: Comparison
    evidence: Evidence

    @property
    def notes(self) -> list[str]:
        """What must be known beside the verdict."""
        compared = f"Options of the models that are compared: {describe_options(self.comparison.compared)}."
        return [self.comparison.match, *([compared] * bool(self.comparison.compared)), *self.comparison.warnings]

    def __repr__(self) -> str:
        return "\n".join([*self.comparison.verdict, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        page = html.escape(str(comparison_page(self.comparison, self.evidence)))
        return f'<iframe title="Comparison" srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def format_scores(self, style: str = "text") -> str:
        """Return the table of scores, as `format_table` writes it."""
        lines = _score_table(self.comparison)
        return format_table(lines, "<" + ">" * (len(lines[0]) - 1), style)

    def write(self, out: AnyPath) -> None:
        """Write ``index.html`` and ``compare.json`` to a folder; raise a HeedError if they cannot be written."""
        names = [side.name for side in self.comparison.sides]
        accuracy = dict(zip(names, self.evidence.accuracy, strict=True))
        plain = {**asdict(self.comparison), "challenge": accuracy}
        pages = {
            "compare.json": json.dumps(plain, indent=2, ensure_ascii=False, default=asdict) + "\n",
            "index.html": comparison_page(self.comparison, self.evidence),
        }
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
            for name, page in pages.items():
                write_file(Path(out, name), page.encode(errors="replace"))  # a path may not be valid Unicode
        except OSError as error:
            raise HeedError(f"{argument('out', Path(out))} cannot be written: {error.strerror}.") from error


def compare_runs(
    runs: Sequence[AnyPath] | Mapping[str, AnyPath | Sequence[AnyPath]],
    *,
    split: str | None = None,
    challenge: str | None = None,
    metrics: Mapping[str, Metric] = MappingProxyType({}),
) -> ComparisonReport:
    """Compare trained systems, as ``heed compare`` does (`heed.compare`).

    Args:
        runs: the runs to compare, or the run or the runs of each system by its name.
        split: the test set; None for all that all runs translated, with details about the first one.
        challenge: a challenge set, as for `choose_challenge`.
        metrics: further metrics by name.

    Raises:
        HeedError: if the runs cannot be compared.
    """
    left_out: list[str] = []
    if isinstance(runs, Mapping):
        groups = [
            (name, list(map(Path, [own] if isinstance(own, str | os.PathLike) else own))) for name, own in runs.items()
        ]
    else:
        groups, left_out = group_runs(list(map(Path, runs)))
    if len(groups) < 2:
        raise HeedError("Give two or more runs to compare, the folder of a grid, or named groups of runs.")
    test_set, sides = read_sides(groups, split)
    challenge_set, contrasts = choose_challenge(challenge, sides)
    others, uncovered = read_other_sides(groups, sides, test_set.split)
    if split is not None and others:
        uncovered = [f"The verdict is about {split} only, not about {', '.join(other.split for other, _ in others)}."]
        others = []
    comparison = compare(test_set, sides, others, metrics)
    evidence, warnings = collect_evidence(comparison, sides, challenge_set, contrasts)
    comparison = replace(comparison, warnings=[*left_out, *uncovered, *comparison.warnings, *warnings])
    return ComparisonReport(comparison, evidence)


def comparison_page(comparison: Comparison, evidence: Evidence) -> str:
    """Return the HTML of the page."""
    names = [side.name for side in comparison.sides]
    extractions = zip(names, evidence.extractions, strict=True)
    tested = [pair for pair in comparison.pairs if pair.p]
    head, *scores = _score_table(comparison)
    return render_template(
        "compare.html.j2",
        comparison=comparison,
        evidence=evidence,
        names=names,
        legend=legend(names),
        differences={metric: _difference_figure(tested, metric) for metric in TESTED if tested},
        p_values=_p_values(tested),
        score_table=table(head, scores, name="Scores of the systems"),
        data={
            "charts": _learning_curves(comparison),
            "heads": head_charts([(n % 6, Path(run)) for n, side in enumerate(comparison.sides) for run in side.runs]),
        },
        bucketings=[(bucketing, _bucketing_figure(bucketing)) for bucketing in comparison.bucketings],
        min_bucket=MIN_BUCKET_SENTENCES,
        challenge=_challenge(evidence),
        facts=[fact for fact in comparison.facts if any(fact.values)],
        symptoms=SYMPTOMS,
        examples=[(example, _maps(comparison, evidence, number)) for number, example in enumerate(comparison.examples)],
        extractions=[f"{name}: {extraction}" for name, extraction in extractions if extraction],
    )


# ---- figures and tables


def _difference_figure(pairs: Sequence[PairReport], metric: str) -> Markup:
    rows = []
    for pair in pairs:
        found = pair.differences[metric]
        marks = [Mark(found.value, found.interval, "both", f"{found.value:+.2f}".replace("-", "−"))]
        if found.over_seeds:
            marks.append(Mark(found.value, found.over_sentences, "component", "over sentences"))
            marks.append(Mark(found.value, found.over_seeds, "component", "over seeds"))
        rows.append(FigureRow(pair.better, marks, f"minus {pair.worse}"))
    return dot_plot(rows, name=f"Differences in {metric}", line=0)


def _p_values(pairs: Sequence[PairReport]) -> Markup:
    """Return a table of the p-values of the verdicts, adjusted for the number of pairs."""
    rows = [[f"{pair.better} − {pair.worse}", *(f"{pair.p[metric]:.4f}" for metric in TESTED)] for pair in pairs]
    return table(["p", *TESTED], rows, name="p-values")


def _score_table(comparison: Comparison) -> list[list[str]]:
    """Return the lines of the table of scores, the titles first."""
    columns = ("mean", "95 % over sentences", "SD over seeds")
    lines = [["", *(f"{metric}, {column}" for metric in TESTED for column in columns), *comparison.sides[0].metrics]]
    for side in comparison.sides:
        line = [side.name]
        for score in (side.scores[metric] for metric in TESTED):
            low, high = score.over_sentences
            deviation = "–" if score.over_seeds is None else f"{score.over_seeds:.2f}"
            line += [f"{score.mean:.2f}", f"{low:.2f} – {high:.2f}", deviation]
        lines.append([*line, *(format_score(name, fmean(values)) for name, values in side.metrics.items())])
    return lines


def _bucketing_figure(bucketing: BucketingReport) -> Markup:
    rows = []
    for bucket in bucketing.buckets:
        count = f"{bucket.sentences:,} sentence{'s' if bucket.sentences > 1 else ''}"
        if bucket.sentences < MIN_BUCKET_SENTENCES:
            rows.append(FigureRow(bucket.label, [], f"{count}: too few to score"))
        else:
            marks = [
                Mark(score.mean, score.over_sentences, side_class(side), f"{score.mean:.1f}")
                for side, score in enumerate(bucket.scores["BLEU"])
            ]
            rows.append(FigureRow(bucket.label, marks, count))
    return dot_plot(rows, name=f"BLEU by {bucketing.title}")


def _learning_curves(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the charts that the script of the page draws, with a curve for each run that has its metrics."""
    titles = {
        "valid_bleu": ("BLEU", "validation, greedy"),
        "valid_loss": ("Validation loss", "nats per target token"),
        "nll": ("Training loss", "nats per target token"),
    }
    charts = []
    for column, (title, unit) in titles.items():
        curves = []
        for number, side in enumerate(comparison.sides):
            names = [side.name, *[""] * (len(side.runs) - 1)]
            for name, run in zip(names, map(Path, side.runs), strict=True):
                with explained_damage(run):
                    steps, values = read_curve(read_csv(run / METRICS_FILE), column)
                    clock = read_clock(read_csv(run / SPEED))
                curve = {"name": name, "side": number % 6, "steps": steps, "values": values, "clock": clock}
                curves += [curve] if steps else []
        charts += [{"title": title, "unit": unit, "curves": curves}] if curves else []
    return charts


def _challenge(evidence: Evidence) -> Markup | None:
    """Return a figure of the accuracy by phenomenon, if any model was evaluated."""
    tags = list(dict.fromkeys(tag for runs in evidence.accuracy for run in runs for tag in run))
    if not tags:
        return None
    rows = []
    for tag in tags:
        by_side = [[run[tag] for run in runs] for runs in evidence.accuracy]
        marks = [_accuracy_mark(side, found) for side, found in enumerate(by_side) if found]
        rows.append(FigureRow(tag, marks, f"{next(found for found in by_side if found)[0].total:,} contrasts"))
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
    names = [f"Attention of {side.name}, line {comparison.examples[number].line}" for side in comparison.sides]
    found = [maps[number] if maps and maps[number].tgt_words else None for maps in evidence.maps]
    return [
        heat_map(each.tgt_words, each.src_words, each.weights, name=name) if each else Markup("")
        for name, each in zip(names, found, strict=True)
    ]
