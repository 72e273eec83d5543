"""Figures as inline SVG. The style sheet of the page colours them, so that they follow its light or dark theme."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

WIDTH, LABELS_WIDTH, VALUES_WIDTH = 812, 180, 130
"""Pixels: a dot plot, its labels at the left, its values at the right."""
MARK_HEIGHT, ROW_PADDING, AXIS_HEIGHT = 17, 9, 26
"""Pixels: a mark, the space above and below the marks of a row, the axis."""
CELL, LETTER = 15, 6.4
"""Pixels: a cell of a heat map, and the average width of a letter in its labels."""
SMALLEST_WEIGHT = 0.03
"""Smaller weights are not drawn in a heat map."""


@dataclass(frozen=True)
class Mark:
    """A value in a dot plot, with its interval."""

    value: float
    interval: tuple[float, float] | None
    style: str
    """CSS class that sets the colour."""
    text: str
    """The value as text, at the right."""
    others: Sequence[float] = ()
    """Values that are drawn as smaller dots on the same line."""


@dataclass(frozen=True)
class Row:
    """Marks below each other, with a common label at the left."""

    label: str
    marks: Sequence[Mark]
    note: str = ""
    """Small text below the label."""


def dot_plot(rows: Sequence[Row], *, name: str, line: float | None = None) -> str:
    """Draw values and intervals on one axis.

    Args:
        rows: The marks.
        name: Description of the figure for screen readers.
        line: Position of a vertical reference line.
    """
    values = [v for row in rows for m in row.marks for v in (m.value, *(m.interval or ()), *m.others)]
    values += [] if line is None else [line]
    ticks = _ticks(min(values), max(values))
    low, high = ticks[0], ticks[-1]

    def x(value: float) -> float:
        return round(LABELS_WIDTH + (value - low) / (high - low) * (WIDTH - LABELS_WIDTH - VALUES_WIDTH), 1)

    parts, top = [], ROW_PADDING
    for row in rows:
        middle = top + MARK_HEIGHT * len(row.marks) / 2
        parts.append(_text(0, middle + (0 if row.note else 4), row.label, "label"))
        if row.note:
            parts.append(_text(0, middle + 13, row.note, "note"))
        for number, mark in enumerate(row.marks):
            y = top + MARK_HEIGHT * (number + 0.5)
            parts.append(f'<g class="{mark.style}">')
            if mark.interval:
                start, stop = map(x, mark.interval)
                parts.append(f'<path class="interval" d="M{start} {y}H{stop}M{start} {y - 3}v6M{stop} {y - 3}v6"/>')
            parts += [f'<circle class="other" cx="{x(other)}" cy="{y}" r="2.5"/>' for other in mark.others]
            parts.append(f'<circle cx="{x(mark.value)}" cy="{y}" r="4.5"/>')
            parts.append(_text(WIDTH - VALUES_WIDTH + 14, y + 4, mark.text, "value") + "</g>")
        top += MARK_HEIGHT * len(row.marks) + 2 * ROW_PADDING
        parts.append(f'<path class="rule" d="M0 {top - ROW_PADDING}H{WIDTH}"/>')
    bottom = top - ROW_PADDING
    axis = [f'<path class="grid" d="M{x(tick)} 0V{bottom}"/>' for tick in ticks]
    axis += [_text(x(tick), bottom + 16, f"{tick:g}".replace("-", "−"), "tick middle") for tick in ticks]
    if line is not None:
        axis.append(f'<path class="line" d="M{x(line)} 0V{bottom}"/>')
    return _svg(WIDTH, bottom + AXIS_HEIGHT, name, [*axis, *parts], "plot")


def heat_map(rows: Sequence[str], columns: Sequence[str], weights: npt.NDArray[np.floating[Any]], *, name: str) -> str:
    """Draw attention weights as a grid of cells, the larger the darker.

    Args:
        rows: Labels of the rows.
        columns: Labels of the columns.
        weights: "rows columns", from 0 to 1.
        name: Description of the figure for screen readers.
    """
    left = 12 + LETTER * max(map(len, rows), default=0)
    top = 12 + LETTER * max(map(len, columns), default=0) * 0.87
    parts = []
    for column, label in enumerate(columns):
        position = f"{left + (column + 0.6) * CELL:.1f} {top - 5:.1f}"
        parts.append(f'<text transform="translate({position}) rotate(-60)">{escape(label)}</text>')
    for row, label in enumerate(rows):
        parts.append(_text(left - 5, top + (row + 0.75) * CELL, label, "end"))
    parts.append(
        f'<path class="frame" d="M{left} {top}h{CELL * len(columns)}v{CELL * len(rows)}h{-CELL * len(columns)}z"/>'
    )
    for row, row_weights in enumerate(weights.tolist()):
        for column, weight in enumerate(row_weights):
            if weight >= SMALLEST_WEIGHT:
                position = f'x="{left + column * CELL:.1f}" y="{top + row * CELL:.1f}"'
                tooltip = f"<title>{escape(rows[row])} → {escape(columns[column])} {weight:.2f}</title>"
                parts.append(f'<rect {position} fill-opacity="{min(weight, 1):.2f}">{tooltip}</rect>')
    # The rotated label of the last column extends beyond the grid.
    width = left + CELL * len(columns) + LETTER * len(columns[-1]) * 0.5 if columns else left
    return _svg(width + 4, top + CELL * len(rows) + 2, name, parts, "map")


def _svg(width: float, height: float, name: str, parts: Sequence[str], kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px" role="img" '
        f'aria-label="{escape(name)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{escape(text)}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """Return at most eight round numbers, the first ≤ ``low`` and the last ≥ ``high``."""
    span = max(high - low, 1e-9)
    magnitude = 10.0 ** math.floor(math.log10(span))
    for step in (magnitude * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5)):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= 7:
            return [round(step * number, 10) for number in range(first, max(last, first + 1) + 1)]
    raise AssertionError("five steps of twice the span cover any span")
