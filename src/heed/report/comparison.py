"""The comparison of runs as one HTML page without dependencies: verdict first, then the evidence for it."""

from collections.abc import Sequence
from html import escape

from heed.compare.breakdown import BucketingReport, Example
from heed.compare.challenge import Accuracy
from heed.compare.comparison import Comparison
from heed.compare.models import Evidence
from heed.compare.pairs import PairReport
from heed.evaluation.health import SYMPTOMS
from heed.evaluation.significance import METRICS, Spread, wilson
from heed.plot.svg import Mark, Row, dot_plot, heat_map
from heed.report.style import STYLE

MAX_LINES = 12
"""Line numbers in a cell of the table of symptoms."""


def render(comparison: Comparison, evidence: Evidence) -> str:
    """Return the HTML of the page."""
    names = [side.name for side in comparison.sides]
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Comparison of {escape(' and '.join(names))}</title>"
        '<link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><main>"
        + _verdict(comparison)
        + _differences(comparison.pairs)
        + _scores(comparison)
        + _facts(comparison)
        + _bucketings(comparison)
        + _challenge(names, evidence)
        + _symptoms(comparison)
        + _examples(comparison, evidence)
        + _methods(comparison)
        + "</main></body></html>\n"
    )


# ---- sections


def _verdict(comparison: Comparison) -> str:
    first, *others = comparison.verdict
    warnings = "".join(f"<li>{escape(warning)}</li>" for warning in comparison.warnings)
    return (
        f'<header><p class="kicker">heed compare · {escape(comparison.split)} · {comparison.sentences:,} sentences</p>'
        f"<h1>{escape(first).replace('p &lt; ', 'p&nbsp;&lt;&nbsp;')}</h1>"
        + "".join(f'<p class="verdict">{escape(other)}</p>' for other in others)
        + (f'<ul class="warnings">{warnings}</ul>' if warnings else "")
        + "</header>"
    )


def _differences(pairs: Sequence[PairReport]) -> str:
    figures = []
    for metric in METRICS:
        rows = []
        for pair in pairs:
            if pair.identical:
                continue
            found = pair.differences[metric]
            marks = [Mark(found.value, found.interval, "both", f"{found.value:+.2f}".replace("-", "−"))]
            if found.over_seeds:
                marks.append(Mark(found.value, found.over_sentences, "only", "over sentences"))
                marks.append(Mark(found.value, found.over_seeds, "only", "over seeds"))
            rows.append(Row(pair.better, marks, f"minus {pair.worse}"))
        if rows:
            figures.append(f"<h3>{metric}</h3>" + dot_plot(rows, name=f"Differences in {metric}", line=0))
    if not figures:
        return ""
    return _section(
        "Differences",
        "Bars are 95 % intervals over sentences and, if a side has several runs, over seeds. If a bar includes zero, "
        "the data do not show which side is better.",
        *figures,
        _paired_tests(pairs),
    )


def _paired_tests(pairs: Sequence[PairReport]) -> str:
    """Return a table of the p-values of sacreBLEU's tests, before adjustment."""
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
    return _table(head, rows) if rows else ""


def _scores(comparison: Comparison) -> str:
    figures = []
    for metric in METRICS:
        rows = [
            Row(
                side.name,
                [_spread_mark(side.scores[metric], number, side.scores_by_run[metric])],
                "one run" if len(side.runs) == 1 else f"{len(side.runs)} runs",
            )
            for number, side in enumerate(comparison.sides)
        ]
        figures.append(f"<h3>{metric}</h3>" + dot_plot(rows, name=metric))
    columns = ("mean", "95 % over sentences", "SD over seeds")
    table = _table(
        ["", *(f"{metric}, {column}" for metric in METRICS for column in columns)],
        [
            [side.name, *(cell for metric in METRICS for cell in _spread_cells(side.scores[metric]))]
            for side in comparison.sides
        ],
    )
    return _section(
        "Scores",
        "Bars are 95 % intervals over sentences for the given seeds; small dots are single seeds. The uncertainty over "
        "sentences does not include the uncertainty over seeds, and vice versa.",
        *figures,
        table,
    )


def _facts(comparison: Comparison) -> str:
    rows = "".join(
        f'<tr class="{"equal" if fact.equal else "unequal"}"><th>{escape(fact.name)}</th>'
        + "".join(f"<td>{escape(value or 'unknown')}</td>" for value in fact.values)
        + f'<td class="sign">{"=" if fact.equal else "≠"}</td></tr>'
        for fact in comparison.facts
        if any(fact.values)
    )
    head = _side_heads(comparison) + "<th></th>"
    return _section(
        "Conditions",
        "Rows marked ≠ differ between the sides and may explain part of the difference. Times and speeds also depend "
        "on the machine.",
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
    )


def _bucketings(comparison: Comparison) -> str:
    figures = [_bucketing(bucketing) for bucketing in comparison.bucketings]
    if not figures:
        return ""
    legend = _legend([side.name for side in comparison.sides])
    return _section("Scores by sentence type", "BLEU with 95 % intervals over sentences.", legend, *figures)


def _bucketing(bucketing: BucketingReport) -> str:
    rows = [
        Row(
            bucket.label,
            [_spread_mark(found, side) for side, found in enumerate(bucket.scores["BLEU"])],
            f"{bucket.sentences:,} sentence{'s' if bucket.sentences > 1 else ''}",
        )
        for bucket in bucketing.buckets
    ]
    note = f" <small>{escape(bucketing.note)}</small>" if bucketing.note else ""
    return f"<h3>{escape(bucketing.title)}{note}</h3>" + dot_plot(rows, name=f"BLEU by {bucketing.title}")


def _challenge(names: Sequence[str], evidence: Evidence) -> str:
    tags = list(dict.fromkeys(tag for runs in evidence.accuracy for run in runs for tag in run))
    if not tags:
        return ""
    rows = []
    for tag in tags:
        by_side = [[run[tag] for run in runs] for runs in evidence.accuracy]
        marks = [_accuracy_mark(side, found) for side, found in enumerate(by_side) if found]
        rows.append(Row(tag, marks, f"{next(found for found in by_side if found)[0].total:,} contrasts"))
    return _section(
        "Contrastive accuracy",
        "How often the model gives the correct translation a higher probability than a minimally wrong one "
        f"({escape(evidence.challenge)}). The dashed line is chance.",
        _legend(names),
        dot_plot(rows, name="Contrastive accuracy in per cent", line=50),
    )


def _accuracy_mark(side: int, runs: Sequence[Accuracy]) -> Mark:
    """Return the mean accuracy of a side's runs, in per cent."""
    right, total = sum(run.right for run in runs), sum(run.total for run in runs)
    # All runs see the same contrasts, so the sample size of the interval is that of one run.
    low, high = wilson(round(right / len(runs)), runs[0].total)
    others = [100 * run.share for run in runs] if len(runs) > 1 else []
    percent = 100 * right / total
    return Mark(percent, (100 * low, 100 * high), _side_class(side), f"{percent:.1f} %", others)


def _symptoms(comparison: Comparison) -> str:
    rows = "".join(
        f"<tr><th>{escape(symptom)}<br><small>{escape(meaning)}</small></th>"
        + "".join(_symptom_cell(side.symptoms[symptom]) for side in comparison.sides)
        + "</tr>"
        for symptom, meaning in SYMPTOMS.items()
    )
    head = _side_heads(comparison)
    return _section(
        "Symptoms",
        f"How many of {comparison.sentences:,} translations show a symptom of a broken system, for each run.",
        f'<div class="wide"><table class="health"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
    )


def _symptom_cell(runs: Sequence[Sequence[int]]) -> str:
    """Return the number of lines of each run, and the first line numbers of the worst run."""
    worst = max(runs, key=len)
    if not worst:
        return '<td class="none">0</td>'
    counts = ", ".join(str(len(lines)) for lines in runs)
    numbers = ", ".join(map(str, worst[:MAX_LINES])) + (" …" if len(worst) > MAX_LINES else "")
    return f"<td>{counts}<br><small>line{'s' if len(worst) > 1 else ''} {numbers}</small></td>"


def _examples(comparison: Comparison, evidence: Evidence) -> str:
    if not comparison.examples:
        return ""
    maps = dict.fromkeys(
        f"{side.name}: {extraction}"
        for side, extraction in zip(comparison.sides, evidence.extractions, strict=True)
        if extraction
    )
    note = f" Heat maps show cross-attention, target words by source words ({escape('; '.join(maps))})." if maps else ""
    names = [side.name for side in comparison.sides]
    cards = [_example(example, number, names, evidence) for number, example in enumerate(comparison.examples)]
    return _section(
        "Sentences with the largest differences",
        f"By the difference in chrF between the first runs of the sides.{note}",
        *cards,
    )


def _example(example: Example, number: int, names: Sequence[str], evidence: Evidence) -> str:
    tag = f" · {escape(example.tag)}" if example.tag else ""
    sides = []
    for side, name in enumerate(names):
        figure = ""
        if maps := evidence.maps[side]:
            word_map, label = maps[number], f"Attention of {name}, line {example.line}"
            figure = heat_map(word_map.tgt_words, word_map.src_words, word_map.weights, name=label)
        sides.append(
            f'<div class="side {_side_class(side)}"><p class="who">{escape(name)} '
            f"<small>chrF {example.chrf[side]:.0f}</small></p>"
            f'<p dir="auto">{escape(example.translations[side]) or "<em>empty</em>"}</p>{figure}</div>'
        )
    return (
        f'<article><p class="line">line {example.line}{tag}</p>'
        f'<p class="source" dir="auto">{escape(example.source)}</p>'
        f'<p class="reference" dir="auto">{escape(example.reference)} <small>reference</small></p>'
        f'<div class="sides">{"".join(sides)}</div></article>'
    )


def _methods(comparison: Comparison) -> str:
    signatures = "".join(
        f"<li>{metric}: <code>{escape(text)}</code></li>" for metric, text in comparison.signatures.items()
    )
    runs = "".join(
        f"<li>{escape(side.name)}, seed {seed}: <code>{escape(run)}</code></li>"
        for side in comparison.sides
        for run, seed in zip(side.runs, side.seeds, strict=True)
    )
    return (
        "<footer><h2>Methods</h2>"
        "<p>Two single runs: p-values by approximate randomization with 10,000 trials (Riezler and Maxwell 2005), "
        "intervals by the paired bootstrap over sentences (Koehn 2004). Several runs on a side: sentences, the same "
        "for both sides, and seeds, within each side, are resampled together, 10,000 times (Owen 2007). With more than "
        "one pair, p-values are adjusted by Holm's method (1979). All tests use sacreBLEU's statistics of each "
        "sentence.</p>"
        f"<ul>{signatures}{runs}</ul></footer>"
    )


# ---- elements


def _section(title: str, lead: str, *parts: str) -> str:
    """Return a section; ``lead`` and ``parts`` are HTML."""
    return f"<section><h2>{escape(title)}</h2><p>{lead}</p>{''.join(parts)}</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first cell of each row is its heading."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join(
        f"<tr><th>{escape(first)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for first, *cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>'


def _side_heads(comparison: Comparison) -> str:
    """Return the heading cells of a table with one column for each side."""
    return "<th></th>" + "".join(f"<th>{escape(side.name)}</th>" for side in comparison.sides)


def _legend(names: Sequence[str]) -> str:
    entries = "".join(f'<li class="{_side_class(side)}">{escape(name)}</li>' for side, name in enumerate(names))
    return f'<ul class="legend">{entries}</ul>'


def _spread_mark(found: Spread, side: int, by_run: Sequence[float] = ()) -> Mark:
    others = by_run if len(by_run) > 1 else ()
    return Mark(found.mean, found.over_sentences, _side_class(side), f"{found.mean:.1f}", others)


def _spread_cells(found: Spread) -> list[str]:
    low, high = found.over_sentences
    return [
        f"{found.mean:.2f}",
        f"{low:.2f} – {high:.2f}",
        "–" if found.over_seeds is None else f"{found.over_seeds:.2f}",
    ]


def _side_class(side: int) -> str:
    """Return the CSS class with the colour of a side."""
    return f"side-{side % 6}"
