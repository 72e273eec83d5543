"""The importance of attention heads, as an HTML page and as a table."""

from collections.abc import Mapping, Sequence

from heed.interventions.ablation import HeadImportance
from heed.plot.attention_map import TITLES
from heed.report.figures import Mark, Row, dot_plot
from heed.report.pages import render_template
from heed.runs.table import format_table


def ablation_page(scores: Mapping[str, float], heads: Sequence[HeadImportance], facts: Mapping[str, str]) -> str:
    """Return the HTML of the page on the results of `ablate`; ``facts`` say what was measured on what."""
    figures = {}
    for measure in scores:
        rows = []
        for kind, (title, _) in TITLES.items():
            own = [_row(head, measure) for head in heads if head.attention == kind]
            rows += [Row(title, []), *own] if own else []
        figures[measure] = dot_plot(rows, name=f"{measure} lost", line=0.0)
    first = max(heads, key=lambda head: head.lost["BLEU"])
    useful = sum(head.lost["BLEU"][1][0] > 0 for head in heads)
    headline = (
        f"{useful} of {len(heads)} heads add to BLEU. Head {first.head + 1} of layer {first.layer + 1} "
        f"({TITLES[first.attention][0].lower()}) adds most: {first.lost['BLEU'][0]:.1f}."
    )
    return render_template("ablation.html.j2", headline=headline, scores=scores, figures=figures, facts=facts)


def ablation_table(scores: Mapping[str, float], heads: Sequence[HeadImportance]) -> str:
    """Return one line for each head, the most important first."""
    titles = [title for measure in scores for title in (f"{measure} lost", "95 % interval")]
    lines = [["attention", "layer", "head", *titles]]
    for head in sorted(heads, key=lambda head: head.lost["BLEU"], reverse=True):
        cells = [cell for measure in scores for cell in _cells(head, measure)]
        lines.append([head.attention, f"{head.layer + 1}", f"{head.head + 1}", *cells])
    return format_table(lines, "<" + ">" * (len(lines[0]) - 1))


def _row(head: HeadImportance, measure: str) -> Row:
    value, interval = head.lost[measure]
    style = "side-0" if interval[0] > 0 else "component"
    mark = Mark(value, interval, style, " ".join(_cells(head, measure)))
    return Row(f"layer {head.layer + 1}, head {head.head + 1}", [mark])


def _cells(head: HeadImportance, measure: str) -> list[str]:
    value, interval = head.lost[measure]
    return [_signed(value), f"[{', '.join(map(_signed, interval))}]"]


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")
