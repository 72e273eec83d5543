"""Figures as inline SVG in the colours of the page's style sheet, and HTML tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from heed.compare.challenge import Accuracy
from heed.evaluation.significance import wilson
from heed.plot.svg import Mark

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 812, 320, 62, 190, 12, 44
"""Size of a plot and its margins, in pixels. The names of lines are in the right margin."""


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
) -> str:
    """Draw lines on common axes, each labelled at its right end.

    Args:
        name: description for screen readers.
        x, y: labels of the axes.
        ticks: (value, label) of the x axis; by default, numbers.
    """
    every = [point for line in lines for point in (*line.points, *line.others)]
    across = _Axis([point[0] for point in every], LEFT, WIDTH - RIGHT, log=log_x)
    up = _Axis([point[1] for point in every], HEIGHT - BOTTOM, TOP, log=log_y)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in up.ticks:
        parts.append(f'<path class="grid" d="M{LEFT} {up(value)}H{right}"/>')
        parts.append(_text(LEFT - 8, up(value) + 4, _number(value, log_y), "tick end"))
    for value, label in ticks or [(value, _number(value, log_x)) for value in across.ticks]:
        parts.append(_text(across(value), bottom + 17, label, "tick middle"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 6, x, "tick middle"))
    parts.append(f'<path class="grid" d="M{LEFT} {bottom}H{right}"/>')
    positions = _spread_out([up(line.points[-1][1]) for line in lines], 15)
    for number, (line, position) in enumerate(zip(lines, positions, strict=True)):
        path = "L".join(f"{across(a)} {up(b)}" for a, b in line.points)
        parts.append(f'<g class="side-{number % 6}"><path class="curve" d="M{path}"/>')
        parts += [f'<circle class="other" cx="{across(a)}" cy="{up(b)}" r="2.2"/>' for a, b in line.others]
        end_x, end_y = across(line.points[-1][0]), up(line.points[-1][1])
        parts.append(f'<path class="leader" d="M{end_x + 3} {end_y}L{right + 10} {position}"/>')
        parts.append(_text(right + 13, position + 4, line.label, "name") + "</g>")
    title = f'<p class="axis">{escape(y)}</p>' if y else ""
    return (
        f'{title}<svg class="plot lines" viewBox="0 0 {WIDTH} {HEIGHT}" style="max-width:{WIDTH}px" role="img" '
        f'aria-label="{escape(name)}">{"".join(parts)}</svg>'
    )


def histogram(
    values: Sequence[float], *, name: str, x: str, low: float = -1.0, high: float = 1.0, bins: int = 40
) -> str:
    """Draw a histogram with the mean and zero marked."""
    height, right = 180, WIDTH - RIGHT
    width = (high - low) / bins
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, max(0, int((value - low) / width)))] += 1

    def across(value: float) -> float:
        return round(LEFT + (value - low) / (high - low) * (right - LEFT), 1)

    bottom = height - BOTTOM
    parts = ['<g class="side-0">']
    for number, count in enumerate(counts):
        tall = round(count / max(counts) * (bottom - TOP), 1)
        left = across(low + number * width)
        parts.append(
            f'<rect x="{left}" y="{bottom - tall}" width="{across(low + width) - LEFT - 1:.1f}" height="{tall}"/>'
        )
    parts.append("</g>")
    mean = sum(values) / len(values)
    parts.append(f'<path class="line" d="M{across(0)} {TOP}V{bottom}"/>')
    parts.append(f'<g class="side-1"><path class="curve" d="M{across(mean)} {TOP}V{bottom}"/>')
    parts.append(_text(across(mean) + 6, TOP + 10, f"mean {mean:+.2f}".replace("-", "−"), "name") + "</g>")
    parts += [
        _text(across(tick), bottom + 17, f"{tick:g}".replace("-", "−"), "tick middle")
        for tick in (low, (low + high) / 2, high)
    ]
    parts.append(_text((LEFT + right) / 2, height - 6, x, "tick middle"))
    return (
        f'<svg class="plot bars" viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px" role="img" '
        f'aria-label="{escape(name)}">{"".join(parts)}</svg>'
    )


class _Axis:
    """Maps values to pixels."""

    def __init__(self, values: Sequence[float], start: float, stop: float, *, log: bool) -> None:
        self.log = log
        values = [value for value in values if not log or value > 0]
        low, high = min(values), max(values)
        self.ticks = _powers(low, high) if log else _round_numbers(low, high)
        self.low, self.high = (self._scale(value) for value in (min(low, *self.ticks), max(high, *self.ticks)))
        self.start, self.stop = start, stop

    def _scale(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def __call__(self, value: float) -> float:
        fraction = (self._scale(value) - self.low) / ((self.high - self.low) or 1)
        return round(self.start + fraction * (self.stop - self.start), 1)


def _powers(low: float, high: float) -> list[float]:
    """At most nine powers of 2, or of 10, 100, …, in the range."""
    for base in (2.0, 10.0, 100.0, 1e4, 1e8):
        first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
        if last - first <= 8:
            return [base**power for power in range(first, max(first, last) + 1)]
    return [low, high]


def _round_numbers(low: float, high: float) -> list[float]:
    """At most seven equally spaced round numbers that cover the range."""
    span = max(high - low, 1e-9)
    magnitude = 10.0 ** math.floor(math.log10(span))
    for step in (magnitude * factor for factor in (0.2, 0.5, 1, 2, 5)):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first <= 6:
            break
    return [round(step * number, 10) for number in range(first, max(last, first + 1) + 1)]


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


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table. The first cell of each row is its heading."""
    body = [
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    ]
    heads = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def accuracy_mark(found: Sequence[Accuracy], number: int) -> Mark:
    """The mark of a `dot_plot` for contrastive accuracies of several seeds, with Wilson's 95 % interval, in per cent.

    Args:
        number: the mark's place among the others of its row, which decides its colour.
    """
    right, total = sum(a.right for a in found), sum(a.total for a in found)
    low, high = wilson(right, total)
    share = 100 * right / total
    return Mark(share, (100 * low, 100 * high), f"side-{number % 6}", f"{share:.1f} %", [100 * a.share for a in found])


def caption(text: str) -> str:
    """Return the title of the figure that follows."""
    return f"<h3>{escape(text)}</h3>"


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{escape(text)}</text>'
