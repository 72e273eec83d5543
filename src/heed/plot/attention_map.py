"""Attention maps as PNG: one map, all maps of a sentence pair, and one map at several training steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.plot.canvas import INK, SOFT_INK, Canvas, TextStyle, is_wide, shade
from heed.symbols import WORD_START

AttentionWeights = npt.NDArray[np.floating[Any]]
"""Attention weights of Q queries on K keys, each row a distribution, except with ``reach=local_p``: "Q K"."""

TITLES = {
    "cross": ("Cross-attention", "rows: target pieces, columns: source pieces"),
    "encoder_self": ("Encoder self-attention", "rows attend to columns, both are source pieces"),
    "decoder_self": ("Decoder self-attention", "rows attend to columns, both are decoder input"),
}
"""The title of each kind of attention, and what its rows and columns are."""
SMALLEST_CELL, LARGEST_CELL = 11, 20
"""Pixels. Labels are still readable beside the smallest cells."""
MAX_GRID_WIDTH = 850
"""Cells get smaller than `LARGEST_CELL` if a row of panels is wider than this, in pixels."""
FILMSTRIP_CELL = 14
MARGIN, GAP = 18, 14
TICKS = (0.0, 0.1, 0.25, 0.5, 1.0)
"""Labels of the colour scale."""
NOTE = TextStyle(11, SOFT_INK)
GOLD = "gold alignment"
"""What outlined cells are."""


@dataclass(frozen=True)
class MapSet:
    """The maps of all layers and heads, for one kind of attention and one sentence pair."""

    kind: str
    """A key of `TITLES`."""
    weights: AttentionWeights
    """ "L H Q K" """
    rows: Sequence[str]
    """The pieces of the queries."""
    columns: Sequence[str]
    """The pieces of the keys."""
    gold: npt.NDArray[np.bool_] | None = None
    """Where a gold alignment links the pieces, "Q K": these cells are outlined. None: unknown."""


def piece_label(piece: str) -> str:
    """Return the label of a piece: without SentencePiece's space mark, and with "·" if it continues a word."""
    if piece.startswith(WORD_START):
        return piece[1:] or WORD_START
    return f"·{piece}" if piece[:1].isalnum() and not is_wide(piece[0]) else piece


def most_informative_head(weights: AttentionWeights) -> tuple[int, int]:
    """Return (layer, head), from 0, of the map that says most about the sentence.

    It has the largest sum of two numbers. Queries have equal probability in both.

    - The mutual information between query and key, in nats. It is zero if all rows are equal, and largest if each row
      puts its weight on a different column.
    - The longest distance between two queries that attend to the same key, as a pronoun and its noun do, in parts of
      the sentence; each distance is multiplied by the probability that both attend to the same key.

    Args:
        weights: "L H Q K".
    """
    weights = np.asarray(weights, dtype=np.float64)
    joint, queries = weights / weights.shape[2], np.arange(weights.shape[2])
    independent = joint.sum(2, keepdims=True) / weights.shape[2]
    ratio = np.divide(joint, independent, out=np.ones_like(joint), where=joint > 0)
    information = (joint * np.log(ratio)).sum((2, 3))
    distances = np.abs(queries[:, None] - queries) / len(queries)
    longest = (weights @ weights.swapaxes(2, 3) * distances).max((2, 3))
    layer, head = np.unravel_index((information + longest).argmax(), weights.shape[:2])
    return int(layer), int(head)


def draw_map(maps: MapSet, layer: int, head: int, *, heading: Sequence[str]) -> Canvas:
    """Draw one map at full size; ``layer`` and ``head`` count from 0, ``heading`` is a list of lines."""
    panel = f"layer {layer + 1}, head {head + 1}", maps.weights[layer, head]
    grid = _Grid(TITLES[maps.kind][0], [[panel]], maps)
    return _draw([grid], heading, cell=LARGEST_CELL, scale=2)


def draw_overview(sets: Sequence[MapSet], *, heading: Sequence[str]) -> Canvas:
    """Draw all maps of a sentence pair: for each kind a grid with a row for each layer and a column for each head."""
    grids = [
        _Grid(
            TITLES[maps.kind][0],
            [
                [(f"layer {layer} · head {head}", weights) for head, weights in enumerate(heads, start=1)]
                for layer, heads in enumerate(maps.weights, start=1)
            ],
            maps,
        )
        for maps in sets
    ]
    widest = max(len(grid.panels[0]) * len(grid.maps.columns) for grid in grids)
    return _draw(grids, heading, cell=MAX_GRID_WIDTH // widest, scale=1)


def draw_filmstrip(
    maps: MapSet, frames: Mapping[str, AttentionWeights], layer: int, head: int, *, heading: Sequence[str]
) -> Canvas:
    """Draw one map at several training steps; ``layer`` and ``head`` count from 0, ``heading`` is a list of lines.

    Args:
        maps: The kind of attention and the pieces; its weights are not drawn.
        frames: AttentionWeights "Q K" by title, in order.
    """
    panels = list(frames.items())
    per_row = max(1, MAX_GRID_WIDTH // (FILMSTRIP_CELL * max(len(maps.columns), 6)))
    rows = [panels[start : start + per_row] for start in range(0, len(panels), per_row)]
    grid = _Grid(f"{TITLES[maps.kind][0]}, layer {layer + 1}, head {head + 1}", rows, maps)
    return _draw([grid], heading, cell=FILMSTRIP_CELL, scale=1)


@dataclass(frozen=True)
class _Grid:
    """Panels with the same labels: rows are labelled beside the first panel, columns above the top row of panels."""

    title: str
    panels: Sequence[Sequence[tuple[str, AttentionWeights]]]
    """The title and weights of each."""
    maps: MapSet
    """The pieces and the gold alignment; its weights are not drawn."""


def _draw(grids: Sequence[_Grid], heading: Sequence[str], *, cell: int, scale: int) -> Canvas:
    """Draw the heading, the grids below each other, and the colour scale; then scale the whole picture.

    ``cell`` is the width and height of a weight's cell, in pixels, before it is clipped to `SMALLEST_CELL` …
    `LARGEST_CELL`.
    """
    cell = min(max(cell, SMALLEST_CELL), LARGEST_CELL)
    label_style = TextStyle(min(cell - 2, 13))
    left = MARGIN + 8 + max(label_style.width(piece_label(piece)) for grid in grids for piece in grid.maps.rows)
    width = left + MARGIN + max(400, *(len(grid.panels[0]) * _panel_pitch(grid, cell) - GAP for grid in grids))
    canvas = Canvas(math.ceil(width), bottom=MARGIN, scale=scale)
    for number, line in enumerate(heading):
        style = TextStyle(14, SOFT_INK if number else INK)
        for part in style.wrap(line, width - 2 * MARGIN):
            canvas.add_text(MARGIN, canvas.bottom + 8, part, style)
            canvas.bottom += 20
    for grid in grids:
        _add_grid(canvas, grid, left, cell, label_style)
    _add_legend(canvas, left, outlines=any(grid.maps.gold is not None for grid in grids))
    return canvas


def _add_grid(canvas: Canvas, grid: _Grid, left: float, cell: int, label_style: TextStyle) -> None:
    maps = grid.maps
    canvas.add_text(left, canvas.bottom + 26, grid.title, TextStyle(15, bold=True))
    canvas.add_text(left, canvas.bottom + 45, TITLES[maps.kind][1], NOTE)
    canvas.bottom += 54
    labels_height = 8 + math.ceil(max(label_style.width(piece_label(piece)) for piece in maps.columns))
    for panels in grid.panels:
        top = canvas.bottom + 20 + labels_height
        for number, (title, weights) in enumerate(panels):
            x = left + number * _panel_pitch(grid, cell)
            canvas.add_text(x, top - labels_height - 8, title, NOTE)
            canvas.add_tiles(x, top, shade(weights), size=cell)
            for row, column in [] if maps.gold is None else np.argwhere(maps.gold).tolist():
                canvas.add_frame(x + cell * column, top + cell * row, cell - 1)
            for column, piece in enumerate(maps.columns if labels_height else ()):
                canvas.add_text(x + cell * (column + 0.5), top - 4, piece_label(piece), label_style, vertical=True)
        for row, piece in enumerate(maps.rows):
            canvas.add_text(left - 6, top + cell * (row + 0.5), piece_label(piece), label_style, anchor="r")
        canvas.bottom = top + cell * len(maps.rows)
        labels_height = 0  # only the top row of panels has column labels


def _add_legend(canvas: Canvas, left: float, *, outlines: bool) -> None:
    length = 200
    canvas.add_tiles(left, canvas.bottom + 26, shade(np.linspace(0, 1, length)[None] ** 2).repeat(10, 0))
    canvas.add_text(left + length + 12, canvas.bottom + 31, "attention weight", NOTE)
    for tick in TICKS:
        canvas.add_text(left + length * math.sqrt(tick), canvas.bottom + 46, f"{tick:g}", NOTE, anchor="m")
    canvas.bottom += 52 + MARGIN
    if outlines:
        canvas.add_frame(left, canvas.bottom, SMALLEST_CELL)
        canvas.add_text(left + SMALLEST_CELL + 8, canvas.bottom + 6, GOLD, NOTE)
        canvas.bottom += 12 + MARGIN


def _panel_pitch(grid: _Grid, cell: int) -> int:
    """Return the distance between the left sides of neighbouring panels."""
    titles = max(NOTE.width(title) for panels in grid.panels for title, _ in panels)
    return max(cell * len(grid.maps.columns), math.ceil(titles)) + GAP
