"""The comparison as one HTML page that needs nothing but itself: verdict first, evidence after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from heed.compare.challenge import Accuracy
from heed.compare.comparison import BucketingReport, Comparison, Example, PairReport
from heed.evaluation.health import MONITORS
from heed.evaluation.significance import SCORES, Spread, wilson
from heed.plot.svg import Mark, Row, WordMap, dot_plot, heat_map
from heed.report.style import STYLE

LINES_SHOWN = 12


@dataclass(frozen=True)
class Evidence:
    """What the models said, by side; where a side came without models its place is empty or None."""

    challenge: str
    """What the contrasts are called."""
    accuracy: Sequence[Sequence[Mapping[str, Accuracy]]]
    """By side and run, by tag."""
    maps: Sequence[Sequence[WordMap] | None]
    """By side, by example."""
    extractions: Sequence[str]
    """By side, which maps these are, or why there are none."""


def render(comparison: Comparison, evidence: Evidence) -> str:
    """The page."""
    names = [side.name for side in comparison.sides]
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(' and '.join(names))} compared</title>"
        '<link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><main>"
        + _verdict(comparison)
        + _differences(comparison.pairs)
        + _scores(comparison)
        + _fairness(comparison)
        + _kinds(comparison)
        + _challenge(names, evidence)
        + _health(comparison)
        + _examples(comparison, evidence)
        + _notes(comparison)
        + "</main></body></html>\n"
    )


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
    for metric in SCORES:
        rows = []
        for pair in pairs:
            if pair.identical:
                continue
            found = pair.differences[metric]
            marks = [Mark(found.value, found.interval, "both", f"{found.value:+.2f}".replace("-", "−"))]
            if found.over_seeds:
                marks.append(Mark(found.value, found.over_sentences, "only", "other sentences"))
                marks.append(Mark(found.value, found.over_seeds, "only", "other seeds"))
            rows.append(Row(pair.better, marks, f"above {pair.worse}"))
        if rows:
            figures.append(f"<h3>{metric}</h3>" + dot_plot(rows, name=f"Differences in {metric}", line=0))
    if not figures:
        return ""
    return _section(
        "The difference",
        "Bars are 95 % intervals: what to expect on other sentences and, where a side has several runs, from other "
        "seeds. One that reaches zero leaves open who is better.",
        *figures,
        _tests(pairs),
    )


def _tests(pairs: Sequence[PairReport]) -> str:
    """All p-values, where sacreBLEU's tests were run."""
    rows = [
        [
            f"{pair.better} − {pair.worse}",
            metric,
            f"{pair.tests[metric].bootstrap:.4f}",
            f"{pair.tests[metric].randomization:.4f}",
        ]
        for pair in pairs
        if pair.tests
        for metric in SCORES
    ]
    head = ["", "", "p, paired bootstrap", "p, approximate randomization"]
    return _table(head, rows) if rows else ""


def _scores(comparison: Comparison) -> str:
    figures = []
    for metric in SCORES:
        rows = [
            Row(
                side.name,
                [_spread_mark(side.scores[metric], number, side.scores_by_run[metric])],
                _runs(len(side.runs)),
            )
            for number, side in enumerate(comparison.sides)
        ]
        figures.append(f"<h3>{metric}</h3>" + dot_plot(rows, name=metric))
    table = _table(
        ["", *(f"{metric}, {what}" for metric in SCORES for what in ("mean", "95 % over sentences", "sd over seeds"))],
        [
            [side.name, *(cell for metric in SCORES for cell in _spread_cells(side.scores[metric]))]
            for side in comparison.sides
        ],
    )
    return _section(
        "The scores",
        "Bars: 95 % over sentences, with the seeds there are. Small dots: one for each seed. The two are different "
        "uncertainties, and neither contains the other.",
        *figures,
        table,
    )


def _runs(number: int) -> str:
    return "one run" if number == 1 else f"{number} runs"


def _spread_mark(found: Spread, side: int, others: Sequence[float] = ()) -> Mark:
    return Mark(found.mean, found.over_sentences, _colour(side), f"{found.mean:.1f}", others if len(others) > 1 else ())


def _spread_cells(found: Spread) -> list[str]:
    low, high = found.over_sentences
    return [
        f"{found.mean:.2f}",
        f"{low:.2f} – {high:.2f}",
        "–" if found.over_seeds is None else f"{found.over_seeds:.2f}",
    ]


def _fairness(comparison: Comparison) -> str:
    head = "".join(f"<th>{escape(side.name)}</th>" for side in comparison.sides)
    rows = "".join(
        f'<tr class="{"equal" if fact.equal else "unequal"}"><th>{escape(fact.name)}</th>'
        + "".join(f"<td>{escape(value or 'unknown')}</td>" for value in fact.values)
        + f'<td class="sign">{"=" if fact.equal else "≠"}</td></tr>'
        for fact in comparison.facts
        if any(fact.values)
    )
    table = (
        f'<div class="wide"><table><thead><tr><th></th>{head}<th></th></tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return _section(
        "The conditions",
        "A comparison is about the models as far as all else is equal. Times and speeds depend on the machine, too.",
        table,
    )


def _kinds(comparison: Comparison) -> str:
    figures = [_bucketing(bucketing) for bucketing in comparison.bucketings]
    if not figures:
        return ""
    legend = _legend([side.name for side in comparison.sides])
    return _section(
        "Which sentences", "BLEU by kind of sentence, with 95 % intervals over sentences.", legend, *figures
    )


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
    rows = []
    for tag in tags:
        marks = []
        for side, runs in enumerate(evidence.accuracy):
            found = [run[tag] for run in runs]
            if found:
                right, total = sum(each.right for each in found), sum(each.total for each in found)
                # Seeds answer the same questions: the interval is that of as many as one of them answered.
                low, high = wilson(round(right / len(found)), found[0].total)
                others = [100 * each.share for each in found] if len(found) > 1 else []
                share = 100 * right / total
                marks.append(Mark(share, (100 * low, 100 * high), _colour(side), f"{share:.1f} %", others))
        rows.append(Row(tag, marks, f"{found[0].total:,} contrasts" if found else ""))
    if not rows:
        return ""
    return _section(
        "Reading it right",
        f"How often the right translation is likelier than a minimally wrong one ({escape(evidence.challenge)}). "
        "The line is chance.",
        _legend(names),
        dot_plot(rows, name="Contrastive accuracy in per cent", line=50),
    )


def _health(comparison: Comparison) -> str:
    def cell(runs: Sequence[Sequence[int]]) -> str:
        worst = max(runs, key=len)
        if not worst:
            return '<td class="none">0</td>'
        counts = ", ".join(str(len(lines)) for lines in runs)
        shown = ", ".join(map(str, worst[:LINES_SHOWN])) + (" …" if len(worst) > LINES_SHOWN else "")
        return f"<td>{counts}<br><small>line{'s' if len(worst) > 1 else ''} {shown}</small></td>"

    head = "".join(f"<th>{escape(side.name)}</th>" for side in comparison.sides)
    rows = "".join(
        f"<tr><th>{escape(monitor)}<br><small>{escape(meaning)}</small></th>"
        + "".join(cell(side.symptoms[monitor]) for side in comparison.sides)
        + "</tr>"
        for monitor, meaning in MONITORS.items()
    )
    table = f'<table class="health"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return _section(
        "Health",
        f"Translations out of {comparison.sentences:,} that show it, run by run.",
        f'<div class="wide">{table}</div>',
    )


def _examples(comparison: Comparison, evidence: Evidence) -> str:
    if not comparison.examples:
        return ""
    drawn = dict.fromkeys(
        f"{side.name}: {extraction}"
        for side, extraction in zip(comparison.sides, evidence.extractions, strict=True)
        if extraction
    )
    note = f" Maps: each word written and where the model looked ({escape('; '.join(drawn))})." if drawn else ""
    cards = [
        _example(example, number, [side.name for side in comparison.sides], evidence)
        for number, example in enumerate(comparison.examples)
    ]
    return _section(
        "Where they differ most",
        f"The sentences with the largest differences in chrF; each side by its first run.{note}",
        *cards,
    )


def _example(example: Example, number: int, names: Sequence[str], evidence: Evidence) -> str:
    tag = f" · {escape(example.tag)}" if example.tag else ""
    sides = []
    for side, name in enumerate(names):
        maps = evidence.maps[side]
        figure = heat_map(maps[number], name=f"Attention of {name}, line {example.line}") if maps else ""
        sides.append(
            f'<div class="side {_colour(side)}"><p class="who">{escape(name)} '
            f"<small>chrF {example.chrf[side]:.0f}</small></p>"
            f'<p dir="auto">{escape(example.translations[side]) or "<em>empty</em>"}</p>{figure}</div>'
        )
    return (
        f'<article><p class="line">line {example.line}{tag}</p>'
        f'<p class="source" dir="auto">{escape(example.source)}</p>'
        f'<p class="reference" dir="auto">{escape(example.reference)} <small>reference</small></p>'
        f'<div class="sides">{"".join(sides)}</div></article>'
    )


def _notes(comparison: Comparison) -> str:
    signatures = "".join(
        f"<li>{metric}: <code>{escape(text)}</code></li>" for metric, text in comparison.signatures.items()
    )
    runs = "".join(
        f"<li>{escape(side.name)}, seed {seed}: <code>{escape(run)}</code></li>"
        for side in comparison.sides
        for run, seed in zip(side.runs, side.seeds, strict=True)
    )
    return (
        "<footer><h2>How it was computed</h2>"
        "<p>Two runs: p by approximate randomization, 10,000 trials (Riezler and Maxwell 2005); intervals by paired "
        "bootstrap over sentences (Koehn 2004). Several runs a side: sentences, the same for both sides, and seeds, "
        "within each side, are resampled at once, 10,000 times (Owen 2007). More than one pair: p-values after Holm "
        "(1979). All on sacreBLEU's statistics of every sentence.</p>"
        f"<ul>{signatures}{runs}</ul></footer>"
    )


# ---- pieces


def _section(title: str, lead: str, *parts: str) -> str:
    """``lead`` is HTML."""
    return f"<section><h2>{escape(title)}</h2><p>{lead}</p>{''.join(parts)}</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join(
        f"<tr><th>{escape(first)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for first, *cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>'


def _legend(names: Sequence[str]) -> str:
    entries = "".join(f'<li class="{_colour(side)}">{escape(name)}</li>' for side, name in enumerate(names))
    return f'<ul class="legend">{entries}</ul>'


def _colour(side: int) -> str:
    return f"side-{side % 6}"
