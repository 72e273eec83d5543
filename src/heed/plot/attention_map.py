"""Attention maps as pictures: one map, all maps of a sentence pair, and how a map forms over training.

A picture is laid out in pixels and painted by pillow, with matplotlib's colours and fonts: an overview of 36 maps and
400 words costs some 50 ms, where an axes object per map costs seconds.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

Weights = npt.NDArray[np.floating[Any]]
"""Attention weights, each row a distribution: "Q K", with Q that look and K that are looked at."""
Pixels = npt.NDArray[np.uint8]
"""Numbers of the palette's colours, "height width"."""

TITLES = {
    "cross": ("Cross-attention", "rows: what is written, columns: the source"),
    "encoder_self": ("Encoder self-attention", "rows look at columns, both are the source"),
    "decoder_self": ("Decoder self-attention", "rows look at columns, both are what was written so far"),
}
"""Of each kind of maps, and what its sides are."""
SMALLEST_CELL, LARGEST_CELL = 11, 20
"""Pixels. In the smallest a token can still be read; in the largest a short sentence does not look lost."""
COMFORTABLE_WIDTH = 850
"""Pixels that a row of panels may fill before its cells become smaller than the largest."""
MARGIN, GAP = 18, 14
FULL, INK, SOFT_INK, WHITE = 199, 200, 218, 255
"""The palette: weights from 0 (light) to `FULL` (dark blue), then from the letters' ink to white, so that letters drawn
in these numbers have smooth edges."""
TICKS = (0.0, 0.1, 0.25, 0.5, 1.0)
CJK_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR", "Noto Sans JP", "Noto Sans SC", "Noto Sans KR",
    "Source Han Sans", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "IPAGothic", "IPAexGothic", "Droid Sans Fallback",
    "Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic",
    "Arial Unicode MS",
)  # fmt: skip


@dataclass(frozen=True)
class MapSet:
    """All layers' and heads' maps of one kind, for one sentence pair."""

    kind: str
    """cross, encoder_self or decoder_self."""
    weights: Weights
    """ "L H Q K" """
    rows: Sequence[str]
    """Pieces that look."""
    columns: Sequence[str]
    """Pieces that are looked at."""


class Attended(Protocol):
    """What `heed.inference.translator.Attended` is, of which this room knows no more."""

    @property
    def src_pieces(self) -> Sequence[str]: ...
    @property
    def tgt_pieces(self) -> Sequence[str]: ...
    @property
    def read_pieces(self) -> Sequence[str]: ...
    @property
    def cross(self) -> Weights | None: ...
    @property
    def encoder_self(self) -> Weights | None: ...
    @property
    def decoder_self(self) -> Weights | None: ...


def map_sets(seen: Attended) -> list[MapSet]:
    """The kinds of maps that there are of a sentence pair, each with the pieces along its sides."""
    sides = (
        ("cross", seen.cross, seen.tgt_pieces, seen.src_pieces),
        ("encoder_self", seen.encoder_self, seen.src_pieces, seen.src_pieces),
        ("decoder_self", seen.decoder_self, seen.read_pieces, seen.read_pieces),
    )
    return [MapSet(kind, weights, rows, columns) for kind, weights, rows, columns in sides if weights is not None]


def label(piece: str) -> str:
    """A piece as it is written beside a map: without the mark of a word's beginning, "·" where it goes on in a word."""
    if piece.startswith("▁"):
        return piece[1:] or "▁"
    return f"·{piece}" if piece[:1].isalnum() and not _is_wide(piece[0]) else piece


def most_telling(weights: Weights) -> tuple[int, int]:
    """(layer, head), from 0, of the map in "L H Q K" that says most about who looks where.

    The mutual information of row and column, rows being equally likely: it is zero where all rows look alike, however
    sharply, and largest where each has a column of its own.
    """
    joint = np.asarray(weights, dtype=np.float64) / weights.shape[2]
    independent = joint.sum(2, keepdims=True) / weights.shape[2]
    ratio = np.divide(joint, independent, out=np.ones_like(joint), where=joint > 0)
    layer, head = np.unravel_index((joint * np.log(ratio)).sum((2, 3)).argmax(), weights.shape[:2])
    return int(layer), int(head)


def draw_map(maps: MapSet, layer: int, head: int, *, heading: Sequence[str]) -> "Image":
    """One map at full size; ``layer`` and ``head`` count from 0."""
    panel = _Panel(f"layer {layer + 1}, head {head + 1}", maps.weights[layer, head])
    grid = _Grid(*TITLES[maps.kind], [[panel]], maps.rows, maps.columns)
    return _draw([grid], heading, cell=LARGEST_CELL, scale=2)


def draw_overview(sets: Sequence[MapSet], *, heading: Sequence[str]) -> "Image":
    """Every layer (a row of panels) and head (a column) of every kind."""
    grids = [
        _Grid(
            *TITLES[maps.kind],
            [
                [_Panel(f"layer {layer} · head {head}", weights) for head, weights in enumerate(heads, start=1)]
                for layer, heads in enumerate(maps.weights, start=1)
            ],
            maps.rows,
            maps.columns,
        )
        for maps in sets
    ]
    widest = max(len(grid.panels[0]) * len(grid.columns) for grid in grids)
    return _draw(grids, heading, cell=COMFORTABLE_WIDTH // widest, scale=1)


def draw_filmstrip(
    maps: MapSet, frames: Mapping[str, Weights], layer: int, head: int, *, heading: Sequence[str]
) -> "Image":
    """One map as it was at several times: ``frames`` are "Q K", by a name for the time; pieces as in ``maps``."""
    panels = [_Panel(name, weights) for name, weights in frames.items()]
    cell = 14
    abreast = max(1, COMFORTABLE_WIDTH // (cell * max(len(maps.columns), 6)))
    lines = [panels[start : start + abreast] for start in range(0, len(panels), abreast)]
    title, sides = TITLES[maps.kind]
    grid = _Grid(f"{title}, layer {layer + 1}, head {head + 1}", sides, lines, maps.rows, maps.columns)
    return _draw([grid], heading, cell=cell, scale=1)


def save(picture: "Image", path: Path) -> None:
    """Write a PNG."""
    picture.save(path, compress_level=1)


@dataclass(frozen=True)
class _Panel:
    name: str
    weights: Weights


@dataclass(frozen=True)
class _Grid:
    """Panels that share what stands along their sides, written once: beside the first and above the topmost."""

    title: str
    sides: str
    panels: Sequence[Sequence[_Panel]]
    rows: Sequence[str]
    columns: Sequence[str]


def _draw(grids: Sequence[_Grid], heading: Sequence[str], *, cell: int, scale: int) -> "Image":
    cell = min(max(cell, SMALLEST_CELL), LARGEST_CELL)
    small = _Style(min(cell - 2, 13))
    beside = MARGIN + 8 + max(_width(label(piece), small) for grid in grids for piece in grid.rows)
    width = beside + MARGIN + max(400, *(len(grid.panels[0]) * _pitch(grid, cell) - GAP for grid in grids))
    page = _Page(math.ceil(width), scale)
    for number, line in enumerate(heading):
        style = _Style(14, SOFT_INK if number else INK)
        for part in _wrap(line, width - 2 * MARGIN, style):
            page.text(MARGIN, page.bottom + 8, part, style)
            page.bottom += 20
    for grid in grids:
        page.text(beside, page.bottom + 26, grid.title, _Style(15, bold=True))
        page.text(beside, page.bottom + 45, grid.sides, NOTE)
        page.bottom += 54
        above = 8 + math.ceil(max(_width(label(piece), small) for piece in grid.columns))
        for panels in grid.panels:
            top = page.bottom + 20 + above
            for number, panel in enumerate(panels):
                left = beside + number * _pitch(grid, cell)
                page.text(left, top - above - 8, panel.name, NOTE)
                page.paint(left, top, _tiles(panel.weights, cell))
                for place, piece in enumerate(grid.columns if above else ()):
                    page.text(left + cell * (place + 0.5), top - 4, label(piece), small, upwards=True)
            for place, piece in enumerate(grid.rows):
                page.text(beside - 6, top + cell * (place + 0.5), label(piece), small, anchor="r")
            page.bottom = top + cell * len(grid.rows)
            above = 0  # the panels below have the same columns
    bar = 200
    page.paint(beside, page.bottom + 26, _shades(np.linspace(0, 1, bar)[None] ** 2).repeat(10, 0))
    page.text(beside + bar + 12, page.bottom + 31, "attention weight", NOTE)
    for tick in TICKS:
        page.text(beside + bar * math.sqrt(tick), page.bottom + 46, f"{tick:g}", NOTE, anchor="m")
    page.bottom += 52 + MARGIN
    return page.painted()


def _pitch(grid: _Grid, cell: int) -> int:
    """From one panel to the next."""
    names = max(_width(panel.name, NOTE) for panels in grid.panels for panel in panels)
    return max(cell * len(grid.columns), math.ceil(names)) + GAP


@dataclass(frozen=True)
class _Style:
    size: float
    """Pixels."""
    colour: int = INK
    bold: bool = False

    def font(self, text: str, scale: int) -> "FreeTypeFont":
        return _font(self.size * scale, bold=self.bold, wide=any(map(_is_wide, text)))


NOTE = _Style(11, SOFT_INK)


class _Page:
    """Things at places, in pixels from the top left; painted all at once, each pixel ``scale`` × ``scale`` times."""

    def __init__(self, width: int, scale: int) -> None:
        self.width, self.scale = width, scale
        self.bottom = MARGIN
        """How far down it is filled."""
        self._texts: list[tuple[float, float, str, _Style, str, bool]] = []
        self._tiles: list[tuple[float, float, Pixels]] = []

    def text(self, x: float, y: float, text: str, style: _Style, *, anchor: str = "l", upwards: bool = False) -> None:
        """``anchor``: whether x is its left end, middle or right end; y is the middle of its height.

        ``upwards``: turned left; x is the middle of its height, and it begins at y.
        """
        self._texts.append((x, y, text, style, anchor, upwards))

    def paint(self, x: float, y: float, tiles: Pixels) -> None:
        self._tiles.append((x, y, tiles))

    def painted(self) -> "Image":
        from PIL import Image, ImageDraw

        scale = self.scale
        page = Image.new("L", (self.width * scale, math.ceil(self.bottom) * scale), WHITE)
        for x, y, tiles in self._tiles:
            page.paste(Image.fromarray(tiles.repeat(scale, 0).repeat(scale, 1)), (round(x * scale), round(y * scale)))
        draw = ImageDraw.Draw(page)
        for x, y, text, style, anchor, upwards in self._texts:
            font = style.font(text, scale)
            if not upwards:
                draw.text((x * scale, y * scale), text, style.colour, font, anchor=f"{anchor}m")
                continue
            length, height = math.ceil(font.getlength(text)) + 1, sum(font.getmetrics())
            mask = Image.new("L", (length, height))
            ImageDraw.Draw(mask).text((0, height / 2), text, 255, font, anchor="lm")
            corner = round(x * scale - height / 2), round(y * scale) - length
            page.paste(style.colour, corner, mask.transpose(Image.Transpose.ROTATE_90))
        page.putpalette(_palette())
        return page


def _tiles(weights: Weights, cell: int) -> Pixels:
    """One tile per weight, a thin gap between them."""
    tiles = _shades(weights).repeat(cell, 0).repeat(cell, 1)
    tiles[cell - 1 :: cell] = tiles[:, cell - 1 :: cell] = WHITE
    return tiles


def _shades(weights: Weights) -> Pixels:
    """Darker with the square root: a weight of 0.1 is seen, and one of 1 stands out."""
    return (np.sqrt(np.clip(weights, 0, 1)) * FULL).round().astype(np.uint8)


@cache
def _palette() -> bytes:
    """256 colours, RGB."""
    from matplotlib import colormaps

    blues = colormaps["Blues"](np.linspace(0.04, 1, FULL + 1), bytes=True)[:, :3]
    greys = np.linspace((27, 33, 48), (255, 255, 255), WHITE - INK + 1)
    return bytes(np.concatenate([blues, greys.round().astype(np.uint8)]).tobytes())


@cache
def _font(size: float, *, bold: bool, wide: bool) -> "FreeTypeFont":
    """matplotlib brings DejaVu Sans; for ``wide`` characters some font that has them, if one is installed."""
    from matplotlib import font_manager
    from PIL import ImageFont

    file: str = font_manager.findfont(
        font_manager.FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    )
    if wide:
        installed = {font.name: font.fname for font in font_manager.fontManager.ttflist}
        file = next((installed[name] for name in CJK_FONTS if name in installed), file)
    # Not raqm, which fails on some strings; tokens are short and need no shaping.
    return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def _width(text: str, style: _Style) -> float:
    return style.font(text, 1).getlength(text)


def _wrap(text: str, width: float, style: _Style) -> list[str]:
    """Lines of at most this width, broken at spaces; a longer word is broken where it must."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and _width(f"{lines[-1]} {word}", style) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
        while _width(lines[-1], style) > width and len(lines[-1]) > 1:
            whole = lines.pop()
            fits = next((n for n in range(len(whole) - 1, 1, -1) if _width(whole[:n], style) <= width), 1)
            lines += [whole[:fits], whole[fits:]]
    return lines
