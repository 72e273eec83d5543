"""Figures and tables as HTML and inline SVG, for pages.

heed draws in two ways. Pages use SVG: their style sheet colours it for the light and the dark theme, and text stays
text. `heed.plot` paints PNG, for image viewers and experiment trackers.

Positions are in per cent of the width, so that a figure fits a phone while its text keeps its size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from heed.plot.attention_map import is_wide
from heed.report.pages import render_template

MARK_HEIGHT, ROW_PADDING = 17, 9
"""Pixels: a mark, the space above and below the marks of a row."""
CELL = 16  # pixels: a cell of a heat map
LETTER, WIDE_LETTER = 6.8, 12.5
"""Pixels: widths of letters in the labels of a heat map; a label has no scroll bar, so they are rather too large."""
SMALLEST_WEIGHT = 0.03  # smaller weights are not drawn in a heat map


@dataclass(frozen=True)
class Mark:
    """A value in a dot plot, with its interval."""

    value: float
    interval: tuple[float, float] | None
    style: str  # CSS class that sets the colour
    text: str  # the value as text, at the right
    others: Sequence[float] = ()  # values that are drawn as smaller dots on the same line


@dataclass(frozen=True)
class FigureRow:
    """Marks below each other, if there are any, with a common label at the left."""

    label: str
    marks: Sequence[Mark]
    note: str = ""  # small text below the label


def dot_plot(rows: Sequence[FigureRow], *, name: str, line: float | None = None) -> Markup:
    """Draw values and intervals on one axis, with a vertical reference line at ``line``.

    ``name`` describes the figure, here and below, to screen readers.
    """
    values = [v for row in rows for m in row.marks for v in (m.value, *(m.interval or ()), *m.others)]
    ticks = _ticks(values if line is None else [*values, line]) if values else []

    def position(value: float) -> float:
        return round((value - ticks[0]) / (ticks[-1] - ticks[0]) * 100, 2)

    return render_template(
        "dot_plot.html.j2",
        rows=rows,
        name=name,
        line=line,
        ticks=ticks,
        axis=position,
        mark_height=MARK_HEIGHT,
        padding=ROW_PADDING,
    )


def heat_map(
    rows: Sequence[str], columns: Sequence[str], weights: npt.NDArray[np.floating[Any]], *, name: str
) -> Markup:
    """Draw attention weights "rows columns", from 0 to 1, as a grid; the darkness of a cell is the square root."""
    left = math.ceil(12 + max(map(_width, rows), default=0))
    top = math.ceil(14 + max(map(_width, columns), default=0) * math.sin(math.radians(60)))
    # The rotated label of the last column extends beyond the grid.
    beyond = math.ceil(_width(columns[-1]) * math.cos(math.radians(60))) if columns else 0
    cells = [(r, c, min(float(weights[r, c]), 1.0)) for r, c in np.argwhere(weights >= SMALLEST_WEIGHT).tolist()]
    return render_template(
        "heat_map.html.j2",
        rows=rows,
        columns=columns,
        cells=cells,
        name=name,
        cell=CELL,
        left=left,
        top=top,
        width=left + CELL * len(columns) + beyond + 4,
        height=top + CELL * len(rows) + 2,
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, name: str) -> Markup:
    """Return a table; the first cell of each row is its heading."""
    return render_template("table.html.j2", head=head, rows=rows, name=name)


def legend(names: Sequence[str]) -> Markup:
    """Return the names of the sides in their colours."""
    return render_template("legend.html.j2", names=names)


def _width(label: str) -> float:
    return sum(WIDE_LETTER if is_wide(letter) else LETTER for letter in label)


def _ticks(values: Sequence[float]) -> list[float]:
    """Return at most nine round numbers that enclose the values."""
    low, high = min(values), max(values)
    size = max(abs(low), abs(high), 1.0)
    span = max(high - low, 0.02 * size if high - low < 1e-9 * size else 0.0)  # equal values, but for rounding
    magnitude = 10.0 ** math.floor(math.log10(span))
    for step in (0.2 * magnitude, 0.5 * magnitude, magnitude, 2 * magnitude):
        first, last = math.floor(low / step + 1e-9), math.ceil((low + span) / step - 1e-9)
        if last - first < 8:
            break
    return [round(number * step, 12) for number in range(first, last + 1)]
