"""Figures of docs/results/*.json as SVG.

Positions are per cent across and pixels down, as in heed's own pages: a figure stretches to the width of the page, and
its text keeps its size. The colours are those of heed's pages, in both themes.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from experiments.claims import CLAIMS

import heed
from docs.figures import load, plain, rows_and_columns, show

STYLE = Path(heed.__file__).parent / "report" / "templates" / "style.css"
"""The style sheet of heed's pages, whose first rule has the colours."""
START, END = 1.0, 88.0
"""Where the track of a row starts and ends, in per cent; values are right of it."""
LINE, TRACK, GAP = 18, 18, 10
"""The height of a line of text and of a track, and the space between rows, in pixels."""
LETTERS = 46
"""Most letters of a line: a figure fits on a phone."""
MARKS = ('<circle r="5"/>', '<rect x="-4.4" y="-4.4" width="8.8" height="8.8"/>', '<path d="M0-6 5.6 4.4H-5.6z"/>')
"""The mark of each series, which has a colour, too."""


def colours() -> str:
    """Return the colours of heed's pages as a style sheet."""
    rule = STYLE.read_text(encoding="utf-8").partition(":root {")[2].partition("}")[0]
    lines = [line for line in rule.splitlines() if re.match(r" *--[\w-]+: light-dark", line)]
    return "\n".join([":root {", "  color-scheme: light dark;", *lines, "}", ""])


@dataclass(frozen=True)
class Scale:
    """Values of an axis as per cent of the width."""

    low: float
    high: float
    is_log: bool = False
    marked: Sequence[float] = ()
    """The numbers at the axis; without them, round ones."""

    def __call__(self, value: Any) -> float:
        """Return where a value is."""
        low, high, at = (math.log(number) if self.is_log else number for number in (self.low, self.high, float(value)))
        return round(START + (END - START) * (at - low) / (high - low), 2)

    def ticks(self) -> list[float]:
        """Return those given, or 1, 1.5, 2, 3, 4 and so on of a logarithmic axis, or about five round numbers."""
        if self.marked:
            return [*self.marked]
        if self.is_log:
            numbers = (step * 2.0**power for power in range(-20, 20) for step in (1, 1.5))
            return [number for number in numbers if self.low <= number <= self.high]
        raw = (self.high - self.low) / 5
        size = 10 ** math.floor(math.log10(raw))
        step = min((size * factor for factor in (1, 2, 5, 10)), key=lambda step: abs(step - raw))
        first = math.ceil(self.low / step)
        return [step * number for number in range(first, math.floor(self.high / step) + 1)]


@dataclass
class Drawing:
    """A figure that grows downwards."""

    alt: str
    height: float = 4
    parts: list[str] = field(default_factory=list)

    def text(self, text: str, *, x: float = 0, dx: float = 0, kind: str = "") -> None:
        """Write a line at the present height, which stays."""
        shift = f' transform="translate({dx:g})"' if dx else ""
        self.parts.append(f'<text x="{x:g}%" y="{self.height + 13:g}"{shift} class="{kind}">{escape(text)}</text>')

    def paragraph(self, text: str, *, dx: float = 0) -> None:
        """Write a text in as many lines as it needs."""
        for line in textwrap.wrap(text, LETTERS):
            self.text(line, dx=dx)
            self.height += LINE

    def legend(self, names: Sequence[str]) -> None:
        """Write the name of each series after its mark."""
        for series, name in enumerate(names):
            self.mark(0, series, dx=7)
            self.text(name, dx=20, kind="soft")
            self.height += LINE
        self.height += GAP

    def mark(self, x: float, series: int, *, dx: float = 0) -> None:
        """Draw the mark of a series in the middle of the present line."""
        self.parts.append(
            f'<svg x="{x:g}%" y="{self.height + TRACK / 2:g}" class="side-{series}">'
            f'<g transform="translate({dx:g})">{MARKS[series]}</g></svg>'
        )

    def line(self, start: float, end: float, kind: str) -> None:
        """Draw a horizontal line between two per cents in the middle of the present line."""
        y = self.height + TRACK / 2
        self.parts.append(f'<line x1="{start:g}%" x2="{end:g}%" y1="{y:g}" y2="{y:g}" class="{kind}"/>')

    def axis(self, scale: Scale, top: float, title: str, reference: Any = None) -> None:
        """Draw the grid from a height down to here behind all else, and the axis below it."""
        grid = [(tick, "grid") for tick in scale.ticks()]
        grid += [(reference, "reference")] if reference is not None else []
        lines = [
            f'<line x1="{scale(at):g}%" x2="{scale(at):g}%" y1="{top:g}" y2="{self.height:g}" class="{kind}"/>'
            for at, kind in grid
        ]
        self.parts[:0] = lines
        for tick in scale.ticks():
            self.text(f"{tick:,g}", x=scale(tick), kind="tick")
        self.height += LINE
        self.text(title, x=START, kind="soft")
        self.height += LINE

    def svg(self) -> str:
        """Return the file."""
        body = "\n".join(self.parts)
        size = f'width="100%" height="{math.ceil(self.height)}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>\n{colours()}{RULES}</style>\n{body}\n</svg>\n'


RULES = """svg { background: var(--paper); overflow: visible; }
text { font: 13px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: var(--ink);
  paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.soft, .tick { fill: var(--soft); font-size: 12px; } .tick { text-anchor: middle; }
.value { text-anchor: end; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--rule); } .reference { stroke: var(--soft); stroke-dasharray: 4 3; }
.range { stroke: var(--own); stroke-width: 2; } svg > svg { fill: var(--own); }
.side-0 { --own: var(--side-0); } .side-1 { --own: var(--side-1); } .side-2 { --own: var(--side-2); }
.curve { fill: none; stroke: var(--own); stroke-width: 2; vector-effect: non-scaling-stroke; }
"""


def middle(value: Any) -> Any:
    """Return the number of a measurement that a mark shows."""
    return value.get("mean", value.get("median")) if isinstance(value, dict) else value


def ends(value: Any) -> tuple[Any, Any]:
    """Return the range of a measurement: from low to high, or the mean ± the standard deviation."""
    if not isinstance(value, dict):
        return value, value
    if "low" in value:
        return value["low"], value["high"]
    return value["mean"] - value["sd"], value["mean"] + value["sd"]


def ratios(name: str, rows: list[str], columns: list[str]) -> Drawing:
    """Draw ratios with their ranges on a logarithmic axis: a row for each row of the table, a mark for each column."""
    content = load(name)
    label = next(iter(content["columns"]))
    cells = [value for row in rows for column in columns if (value := content["rows"][row][column])]
    limits = [float(end) for value in cells for end in ends(value)]
    scale = Scale(min(*limits, 0.95) / 1.04, max(limits) * 1.04, is_log=True)
    drawing = Drawing(f"{content['what']} Marks: medians; lines: ranges.")
    drawing.legend([content["columns"][column].removeprefix("ratio to ") for column in columns])
    top = drawing.height
    for row in rows:
        drawing.paragraph(plain(content["rows"][row][label]))
        for series, column in enumerate(columns):
            if (value := content["rows"][row][column]) is not None:
                measured(drawing, scale, value, series)
        drawing.height += GAP
    drawing.axis(scale, top, "heed’s speed divided by the peer’s; 1 is equal", 1)
    return drawing


def measured(drawing: Drawing, scale: Scale, value: Any, series: int) -> None:
    """Draw a measurement with its range, and write its number."""
    low, high = ends(value)
    drawing.line(scale(low), scale(high), f"range side-{series}")
    drawing.mark(scale(middle(value)), series)
    drawing.text(show(middle(value)), x=100, kind="value")
    drawing.height += TRACK


def changes(name: str, rows: list[str], columns: list[str]) -> Drawing:
    """Draw a measurement of each row, joined to that of the first row."""
    content, (label, column) = load(name), columns
    values = {row: content["rows"][row][column] for row in rows}
    first = middle(values[rows[0]])
    scale = linear(values.values())
    drawing = Drawing(f"{content['what']} Each row’s {content['columns'][column]}, compared with the first row’s.")
    for row in rows:
        drawing.paragraph(plain(content["rows"][row][label]))
        drawing.line(scale(first), scale(middle(values[row])), f"range side-{int(middle(values[row]) < first)}")
        drawing.mark(scale(middle(values[row])), int(middle(values[row]) < first))
        drawing.text(show(values[row]), x=100, kind="value")
        drawing.height += TRACK + GAP
    drawing.axis(scale, 4, f"{content['columns'][column]}; dashed: {plain(content['rows'][rows[0]][label])}", first)
    return drawing


def linear(values: Iterable[Any]) -> Scale:
    """Return an axis on which all values have room."""
    limits = [float(end) for value in values for end in ends(value)]
    margin = 0.06 * (max(limits) - min(limits))
    return Scale(min(limits) - margin, max(limits) + margin)


def published(name: str, rows: list[str], columns: list[str]) -> Drawing:
    """Draw heed's scores next to those of other authors."""
    content, others, (column,) = load(name), load("published"), columns
    scores = [(content["rows"][row]["model"], content["rows"][row][column], 0) for row in rows]
    scores += [(row["model"], row["bleu"], 1) for row in others["rows"].values()]
    scale = linear(value for _, value, _ in scores)
    drawing = Drawing("BLEU of heed’s models and of published models on the test set of Multi30k.")
    drawing.legend(["heed", "published"])
    top = drawing.height
    for model, value, series in sorted(scores, key=lambda score: -middle(score[1])):
        drawing.paragraph(model.removesuffix(", Multi30k").replace(", Multi30k,", ","))
        measured(drawing, scale, value, series)
        drawing.height += GAP
    drawing.axis(scale, top, content["columns"][column])
    return drawing


def curves(name: str, rows: list[str], columns: list[str]) -> Drawing:
    """Draw columns of a table as curves over its first column, on a logarithmic axis if that has a wide range.

    A value may be missing.
    """
    content = load(name)
    x, *_ = content["columns"]
    found = [content["rows"][row] for row in rows]
    xs = [float(row[x]) for row in found]
    lines = [[(float(row[x]), float(row[column])) for row in found if row[column] is not None] for column in columns]
    scale = linear(value for line in lines for _, value in line)
    is_wide = max(xs) > 20 * min(xs) > 0
    across = Scale(min(xs) / 1.3, max(xs), is_log=True, marked=xs) if is_wide else Scale(min(0, *xs), max(xs))
    bottom = 240.0

    def down(value: float) -> float:
        return round(bottom * (END - scale(value)) / (END - START), 1)

    drawing = Drawing(content["what"])
    drawing.legend([plain(content["columns"][column]) for column in columns])
    top = drawing.height
    for tick in scale.ticks():
        y = top + down(tick)
        drawing.parts.append(f'<line x1="{START}%" x2="{END}%" y1="{y:g}" y2="{y:g}" class="grid"/>')
        drawing.height = y - LINE / 2
        drawing.text(f"{tick:g}", x=100, kind="value soft")
    for series, line in enumerate(lines):
        points = " ".join(f"{across(at):g},{down(value):g}" for at, value in line)
        drawing.parts.append(
            f'<svg y="{top:g}" width="100%" height="{bottom:g}" viewBox="0 0 100 {bottom:g}"'
            ' preserveAspectRatio="none">'
            f'<polyline points="{points}" class="curve side-{series}"/></svg>'
        )
        for at, value in line:
            drawing.height = top + down(value) - TRACK / 2
            drawing.mark(across(at), series)
    drawing.height = top + bottom
    drawing.axis(across, top, f"BLEU by {content['columns'][x]}")
    return drawing


def held(name: str, rows: list[str], columns: list[str]) -> Drawing:
    """Draw which claims hold: a mark for each, and its statement."""
    content = load(name)
    count = sum(content["rows"][row]["held"] for row in rows)
    drawing = Drawing(f"{count} of {len(rows)} claims hold.")
    drawing.legend([f"{count} hold", f"{len(rows) - count} do not hold"])
    statements = {claim.name: claim.claim for claim in CLAIMS}
    for row in rows:
        drawing.mark(0, int(not content["rows"][row]["held"]), dx=7)
        drawing.paragraph(statements[row], dx=20)
        drawing.height += GAP / 2
    return drawing


KINDS: dict[str, Callable[[str, list[str], list[str]], Drawing]] = {
    "ratios": ratios, "changes": changes, "published": published, "curves": curves, "held": held,
}  # fmt: skip
"""Functions from a file, its rows and its columns to a figure."""


def draw(argument: str) -> Drawing:
    """Draw a figure.

    Args:
        argument: ``KIND NAME``, and optionally ``rows=a,b`` and ``columns=x,y`` for a part of the file.
    """
    kind, _, rest = argument.partition(" ")
    return KINDS[kind](*rows_and_columns(rest))


def file_name(argument: str) -> str:
    """Return where the figure of a file is, in docs/."""
    return f"figures/{argument.split()[1]}.svg"


def markdown(argument: str) -> str:
    """Return the image: as wide as the page, and as high as it is drawn."""
    drawing = draw(argument)
    size = f'width="100%" height="{math.ceil(drawing.height)}"'
    return f'<img src="{file_name(argument)}" {size} alt="{escape(drawing.alt)}">'
