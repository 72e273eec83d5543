"""Figures as inline SVG, coloured by the page's style sheet so that they follow its light and dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from heed.evaluation.words import Map

WIDTH, LEFT, RIGHT = 812, 180, 130
"""Pixels: of a plot, of its labels, of its written values."""
LINE, PAD, AXIS = 17, 9, 26
"""Pixels: height of a mark, above and below the marks of a row, of the axis."""
CELL, LETTER = 15, 6.4
"""Pixels: a cell of a map, and what a letter beside it takes."""


@dataclass(frozen=True)
class Mark:
    """A value with its interval, and more values around it."""

    value: float
    interval: tuple[float, float] | None
    style: str
    """Class that gives the colour."""
    text: str
    """The value as it is written at the right."""
    others: Sequence[float] = ()


@dataclass(frozen=True)
class Row:
    """Marks under each other, with what they have in common at the left."""

    label: str
    marks: Sequence[Mark]
    note: str = ""


@dataclass(frozen=True)
class WordMap:
    """Where a model looked while it wrote each word."""

    src_words: list[str]
    tgt_words: list[str]
    weights: Map
    """ "T S"; a row sums to at most 1, for what went to the end of the sentence went to no word."""


def dot_plot(rows: Sequence[Row], *, name: str, line: float | None = None) -> str:
    """Values and intervals on one axis; ``name`` says what it is to who cannot see it, ``line`` is marked on it."""
    values = [v for row in rows for m in row.marks for v in (m.value, *(m.interval or ()), *m.others)]
    values += [] if line is None else [line]
    ticks = _ticks(min(values), max(values))
    low, high = ticks[0], ticks[-1]

    def x(value: float) -> float:
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    parts, top = [], PAD
    for row in rows:
        middle = top + LINE * len(row.marks) / 2
        parts.append(_text(0, middle + (0 if row.note else 4), row.label, "label"))
        if row.note:
            parts.append(_text(0, middle + 13, row.note, "note"))
        for number, mark in enumerate(row.marks):
            y = top + LINE * (number + 0.5)
            parts.append(f'<g class="{mark.style}">')
            if mark.interval:
                start, stop = map(x, mark.interval)
                parts.append(f'<path class="interval" d="M{start} {y}H{stop}M{start} {y - 3}v6M{stop} {y - 3}v6"/>')
            parts += [f'<circle class="other" cx="{x(other)}" cy="{y}" r="2.5"/>' for other in mark.others]
            parts.append(f'<circle cx="{x(mark.value)}" cy="{y}" r="4.5"/>')
            parts.append(_text(WIDTH - RIGHT + 14, y + 4, mark.text, "value") + "</g>")
        top += LINE * len(row.marks) + 2 * PAD
        parts.append(f'<path class="rule" d="M0 {top - PAD}H{WIDTH}"/>')
    bottom = top - PAD
    grid = [f'<path class="grid" d="M{x(tick)} 0V{bottom}"/>' for tick in ticks]
    grid += [_text(x(tick), bottom + 16, f"{tick:g}".replace("-", "−"), "tick middle") for tick in ticks]
    if line is not None:
        grid.append(f'<path class="line" d="M{x(line)} 0V{bottom}"/>')
    return _svg(WIDTH, bottom + AXIS, name, [*grid, *parts], "plot")


def heat_map(word_map: WordMap, *, name: str) -> str:
    """A map over words: rows write, columns are looked at, and the darker the more."""
    rows, columns = word_map.tgt_words, word_map.src_words
    left = 12 + LETTER * max(map(len, rows), default=0)
    top = 12 + LETTER * max(map(len, columns), default=0) * 0.87
    parts = []
    for column, word in enumerate(columns):
        at = f"{left + (column + 0.6) * CELL:.1f} {top - 5:.1f}"
        parts.append(f'<text transform="translate({at}) rotate(-60)">{escape(word)}</text>')
    for row, word in enumerate(rows):
        parts.append(_text(left - 5, top + (row + 0.75) * CELL, word, "end"))
    parts.append(
        f'<path class="frame" d="M{left} {top}h{CELL * len(columns)}v{CELL * len(rows)}h{-CELL * len(columns)}z"/>'
    )
    for row, weights in enumerate(word_map.weights.tolist()):
        for column, weight in enumerate(weights):
            if weight >= 0.03:
                place = f'x="{left + column * CELL:.1f}" y="{top + row * CELL:.1f}"'
                says = f"<title>{escape(rows[row])} → {escape(columns[column])} {weight:.2f}</title>"
                parts.append(f'<rect {place} fill-opacity="{min(weight, 1):.2f}">{says}</rect>')
    # The last column's label leans out.
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
    """Round numbers from below the least to above the greatest, at most eight of them."""
    span = max(high - low, 1e-9)
    magnitude = 10.0 ** math.floor(math.log10(span))
    for step in (magnitude * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5)):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= 7:
            return [round(step * number, 10) for number in range(first, max(last, first + 1) + 1)]
    raise AssertionError("five steps of twice the span cover any span")
