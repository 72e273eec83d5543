"""Figures of the claims: curves, histograms, and marks and tables of `heed.report.figures`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markupsafe import Markup

from heed.compare.challenge import Accuracy
from heed.evaluation.significance import wilson
from heed.report import figures
from heed.report.figures import Axis, Mark, format_tick
from heed.report.pages import render_template, side_class

TEMPLATES = Path(__file__).with_name("templates")
HEIGHT, TOP, BOTTOM = 300, 12, 24
"""Height of a plot and its margins, in pixels."""
ACROSS = 97.0
"""Per cent of the width that curves take; the rest leads to their names."""
LINE_GAP = 16
"""Pixels between the names of curves."""


@dataclass(frozen=True)
class Line:
    """A curve of `line_plot`.

    Attributes:
        points: joined by the line.
        others: drawn as dots, for example single runs.
    """

    label: str
    points: Sequence[tuple[float, float]]
    others: Sequence[tuple[float, float]] = ()


def line_plot(
    lines: Sequence[Line],
    *,
    name: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    ticks: Sequence[tuple[float, str]] | None = None,
) -> Markup:
    """Draw lines on common axes, each labelled at its right end.

    Args:
        name: description for screen readers.
        x, y: labels of the axes.
        ticks: (value, label) of the x axis; by default, numbers.
    """
    every = [point for line in lines for point in (*line.points, *line.others)]
    across = _PlotAxis([point[0] for point in every], 0, ACROSS, log=log_x)
    up = _PlotAxis([point[1] for point in every], HEIGHT - BOTTOM, TOP, log=log_y)
    return render_template(
        "line_plot.html.j2",
        folder=TEMPLATES,
        lines=lines,
        name=name,
        x=x,
        y=y,
        across=across,
        up=up,
        x_ticks=ticks or [(value, across.label(value)) for value in across.ticks],
        label_positions=_spread_out([up(line.points[-1][1]) for line in lines], LINE_GAP),
        height=HEIGHT,
        bottom=HEIGHT - BOTTOM,
    )


def histogram(
    values: Sequence[float], *, name: str, x: str, low: float = -1.0, high: float = 1.0, bins: int = 40
) -> Markup:
    """Draw a histogram with the mean and zero marked."""
    height = 160
    width = 100 / bins
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, max(0, int((value - low) / (high - low) * bins)))] += 1

    def across(value: float) -> float:
        return round((value - low) / (high - low) * 100, 2)

    tallest = height - BOTTOM - TOP
    mean = sum(values) / len(values)
    return render_template(
        "histogram.html.j2",
        folder=TEMPLATES,
        name=name,
        x=x,
        bars=[
            {"left": number * width, "width": width * 0.92, "height": round(count / max(counts) * tallest, 1)}
            for number, count in enumerate(counts)
        ],
        mean=across(mean),
        mean_text=f"{mean:+.2f}".replace("-", "−"),
        zero=across(0),
        ticks=[(across(tick), format_tick(tick)) for tick in (low, (low + high) / 2, high)],
        height=height,
        top=TOP,
        bottom=height - BOTTOM,
    )


class _PlotAxis:
    """Maps values to positions, on a linear or logarithmic scale."""

    def __init__(self, values: Sequence[float], start: float, stop: float, *, log: bool) -> None:
        self.log = log
        values = [value for value in values if not log or value > 0]
        low, high = min(values), max(values)
        self.ticks = _powers(low, high) if log else Axis(values, max_ticks=7).ticks
        self.low, self.high = (self._scale(value) for value in (min(low, *self.ticks), max(high, *self.ticks)))
        self.start, self.stop = start, stop

    def _scale(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def __call__(self, value: float) -> float:
        fraction = (self._scale(value) - self.low) / ((self.high - self.low) or 1)
        return round(self.start + fraction * (self.stop - self.start), 2)

    def label(self, value: float) -> str:
        """Return the label of a tick."""
        return _number(value, self.log)


def _powers(low: float, high: float) -> list[float]:
    """At most nine powers of 2, or of 10, 100, …, in the range."""
    for base in (2.0, 10.0, 100.0, 1e4, 1e8):
        first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
        if last - first <= 8:
            return [base**power for power in range(first, max(first, last) + 1)]
    return [low, high]


def _number(value: float, log: bool) -> str:
    if log and not 1e-3 <= value < 1e5:
        mantissa, exponent = f"{value:.0e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"
    return f"{value:.4g}".replace("-", "−") if abs(value) < 10_000 else f"{value:,.0f}"


def _spread_out(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions apart until they differ by ``gap`` or more, and into the range of the y axis."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = [min(max(position, TOP), HEIGHT - BOTTOM) for position in positions]
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + gap)
    limit = float(HEIGHT - BOTTOM)
    for index in reversed(order):
        moved[index] = limit = min(moved[index], limit)
        limit -= gap
    return [round(position, 1) for position in moved]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return an HTML table. The first cell of each row is its heading."""
    return figures.table(head, rows, name=f"Table: {', '.join(title for title in head if title)}")


def accuracy_mark(found: Sequence[Accuracy], number: int) -> Mark:
    """The mark of a `dot_plot` for contrastive accuracies of several seeds, with Wilson's 95 % interval, in per cent.

    Args:
        number: the mark's place among the others of its row, which decides its colour.
    """
    right, total = sum(a.right for a in found), sum(a.total for a in found)
    low, high = wilson(right, total)
    share = 100 * right / total
    return Mark(share, (100 * low, 100 * high), side_class(number), f"{share:.1f} %", [100 * a.fraction for a in found])


def caption(text: str) -> Markup:
    """Return the title of the figure that follows."""
    return Markup("<h3>{}</h3>").format(text)
