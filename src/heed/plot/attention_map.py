"""Attention maps as figures: one map, all maps of a sentence pair, and one map at several training steps."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heed.plot.fonts import text_path, text_width, wrap
from heed.symbols import WORD_START

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

AttentionWeights = npt.NDArray[np.floating[Any]]
"""Attention weights of Q queries on K keys, each row a distribution, except with ``reach=local_p``: "Q K"."""

TITLES = {
    "cross": ("Cross-attention", "rows: target pieces, columns: source pieces"),
    "encoder_self": ("Encoder self-attention", "rows attend to columns, both are source pieces"),
    "decoder_self": ("Decoder self-attention", "rows attend to columns, both are decoder input"),
}
"""The title of each kind of attention, and what its rows and columns are."""
SMALLEST_CELL, LARGEST_CELL = 11, 20
"""Points, as all lengths here. Labels are still readable beside the smallest cells."""
MAX_GRID_WIDTH = 850
"""Cells get smaller than `LARGEST_CELL` if a row of panels is wider than this."""
FILMSTRIP_CELL = 14
MARGIN, GAP = 18, 14
POINTS = 72
"""Points per inch."""
TICKS = (0.0, 0.1, 0.25, 0.5, 1.0)
"""Labels of the colour scale."""
INK, SOFT_INK, OUTLINE = "#1b2130", "#676b76", "#d95f02"
NOTE = 11
"""The size of small text."""
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


def is_wide(character: str) -> bool:
    """Return whether a character is full-width: Chinese, Japanese or Korean."""
    return unicodedata.east_asian_width(character) in "WF"


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


def draw_map(maps: MapSet, layer: int, head: int, *, heading: Sequence[str]) -> "Figure":
    """Draw one map at full size; ``layer`` and ``head`` count from 0, ``heading`` is a list of lines."""
    panel = f"layer {layer + 1}, head {head + 1}", maps.weights[layer, head]
    grid = _Grid(TITLES[maps.kind][0], [[panel]], maps)
    return _draw([grid], heading, cell=LARGEST_CELL, scale=2)


def draw_overview(sets: Sequence[MapSet], *, heading: Sequence[str]) -> "Figure":
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
) -> "Figure":
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


def add_weights(axes: "Axes", weights: AttentionWeights, **options: Any) -> "AxesImage":
    """Draw weights as cells; the square root makes small weights visible. NaN: no cell."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, PowerNorm

    blues = ListedColormap(colormaps["Blues"](np.linspace(0.04, 1, 256)))
    return axes.imshow(weights, cmap=blues, norm=PowerNorm(0.5, 0, 1), interpolation="none", **options)


def add_outlines(axes: "Axes", corners: npt.ArrayLike, size: float, *, line: float) -> None:
    """Outline squares, with these corners "N 2" and sides of this size."""
    from matplotlib.collections import PolyCollection

    square = size * np.array([(0, 0), (0, 1), (1, 1), (1, 0)])
    squares = np.reshape(corners, (-1, 1, 2)) + square
    axes.add_collection(PolyCollection([*squares], facecolors="none", edgecolors=OUTLINE, linewidths=line, zorder=3))


def _draw(grids: Sequence[_Grid], heading: Sequence[str], *, cell: int, scale: int) -> "Figure":
    """Draw the heading, the grids below each other, and the colour scale, with ``scale`` pixels per point.

    ``cell`` is the width and height of a weight's cell before it is clipped to `SMALLEST_CELL` … `LARGEST_CELL`.
    """
    from matplotlib.figure import Figure

    cell = min(max(cell, SMALLEST_CELL), LARGEST_CELL)
    size = min(cell - 2, 13)
    row_labels = [piece_label(piece) for grid in grids for piece in grid.maps.rows]
    left = MARGIN + 8 + math.ceil(max(text_width(label, size) for label in row_labels))
    width = left + MARGIN + max(400, *(len(grid.panels[0]) * _panel_pitch(grid, cell) * cell - GAP for grid in grids))
    figure = Figure(dpi=POINTS * scale)
    axes = figure.add_axes((0, 0, 1, 1))  # positions are points from the top left corner
    bottom = MARGIN
    for number, text in enumerate(heading):
        for line in wrap(text, 14, width - 2 * MARGIN):
            _write(axes, MARGIN, bottom + 8, line, 14, SOFT_INK if number else INK)
            bottom += 20
    for grid in grids:
        bottom = _add_grid(axes, grid, left, bottom, cell, size)
    bottom = _add_legend(axes, left, bottom, outlines=any(grid.maps.gold is not None for grid in grids))
    figure.set_size_inches(width / POINTS, bottom / POINTS)
    axes.set(xlim=(0, width), ylim=(bottom, 0))
    axes.set_axis_off()
    return figure


def _add_grid(axes: "Axes", grid: _Grid, left: int, top: int, cell: int, size: int) -> int:
    """Draw a grid below ``top``, and return its bottom."""
    maps, (height, width) = grid.maps, (len(grid.maps.rows), len(grid.maps.columns))
    _write(axes, left, top + 26, grid.title, 15, bold=True)
    _write(axes, left, top + 45, TITLES[maps.kind][1], NOTE, SOFT_INK)
    labels_height = 8 + math.ceil(max(text_width(piece_label(piece), size) for piece in maps.columns))
    top += 74 + labels_height
    down, across = height + math.ceil(20 / cell), _panel_pitch(grid, cell)  # cells from panel to panel
    shape = down * (len(grid.panels) - 1) + height, across * (len(grid.panels[0]) - 1) + width
    cells = np.full(shape, np.nan)
    outlined = np.zeros(shape, dtype=bool)
    for row, panels in enumerate(grid.panels):
        y = top + cell * down * row
        for column, (title, weights) in enumerate(panels):
            x = left + cell * across * column
            place = np.s_[down * row :, across * column :]
            cells[place][:height, :width] = weights
            outlined[place][:height, :width] = False if maps.gold is None else maps.gold
            _write(axes, x, y - 8 - (0 if row else labels_height), title, NOTE, SOFT_INK)
            # Only the top row of panels has column labels.
            for number, piece in enumerate(() if row else maps.columns):
                _write(axes, x + cell * (number + 0.5), y - 4, piece_label(piece), size, vertical=True)
        for number, piece in enumerate(maps.rows):
            _write(axes, left - 6, y + cell * (number + 0.5), piece_label(piece), size, shift=1)
    right, bottom = left + cell * shape[1], top + cell * shape[0]
    add_weights(axes, cells, extent=(left, right, bottom, top), aspect="auto")
    axes.vlines(np.arange(left, right + 1, cell), top, bottom, colors="white", linewidth=1)
    axes.hlines(np.arange(top, bottom + 1, cell), left, right, colors="white", linewidth=1)
    add_outlines(axes, (left, top) + cell * np.argwhere(outlined)[:, ::-1], cell, line=2)
    return bottom


def _add_legend(axes: "Axes", left: int, top: int, *, outlines: bool) -> int:
    """Draw the colour scale and what outlines are below ``top``, and return its bottom."""
    length = 200
    extent = (left, left + length, top + 36, top + 26)
    add_weights(axes, np.linspace(0, 1, length)[None] ** 2, extent=extent, aspect="auto")
    _write(axes, left + length + 12, top + 31, "attention weight", NOTE, SOFT_INK)
    for tick in TICKS:
        x = left + length * math.sqrt(tick)
        _write(axes, x, top + 46, f"{tick:g}", NOTE, SOFT_INK, shift=0.5)
    top += 52 + MARGIN
    if outlines:
        add_outlines(axes, (left, top), SMALLEST_CELL, line=2)
        _write(axes, left + SMALLEST_CELL + 8, top + 6, GOLD, NOTE, SOFT_INK)
        top += 12 + MARGIN
    return top


def _write(
    axes: "Axes", x: float, y: float, text: str, size: int, colour: str = INK, *,
    shift: float = 0.0, vertical: bool = False, bold: bool = False,
) -> None:  # fmt: skip
    """Write a line of text, with the middle of its lower-case letters at y, or at x if it is read from bottom to top.

    ``shift`` is the part of the text that is before the position (x, y).
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = text_path(text, size, bold=bold)
    along, above = (np.asarray(path.vertices) - (shift * text_width(text, size), 0.36 * size)).T
    places = (x - above, y - along) if vertical else (x + along, y - above)
    outlines = Path(np.stack(places, axis=1), path.codes)
    axes.add_artist(PathPatch(outlines, facecolor=colour, linewidth=0, zorder=3, label=text))


def _panel_pitch(grid: _Grid, cell: int) -> int:
    """Return the distance between the left sides of neighbouring panels, in cells."""
    titles = max(text_width(title, NOTE) for panels in grid.panels for title, _ in panels)
    return math.ceil((max(cell * len(grid.maps.columns), titles) + GAP) / cell)
