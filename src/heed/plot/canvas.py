"""Drawing primitives: a canvas of text and tiles, fonts, and the colour palette.

Pillow writes PNG files, matplotlib SVG and PDF files. Both have matplotlib's letters and colours.
"""

import math
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heed.plot.fonts import choose_fonts, load_font, report_missing, silent_about_glyphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
"""Palette indices, "height width"."""

FULL, OUTLINE, INK, SOFT_INK, WHITE = 198, 199, 200, 218, 255
"""Palette indices: 0 to `FULL` are weights from light to dark blue, `OUTLINE` is orange, `INK` to `WHITE`
are greys from the colour of text to white, so that antialiased text needs no other colours."""
POINTS = 72
"""Points per inch: a pixel of a canvas is a point in SVG and PDF files."""
X_HEIGHT = 0.36
"""Distance from the baseline of a text to the middle of its letters, relative to its size."""


@dataclass(frozen=True)
class TextStyle:
    """Size, colour and weight of a text."""

    size: float
    """Pixels."""
    colour: int = INK
    """Palette index."""
    bold: bool = False

    def width(self, text: str) -> float:
        """Return the width of the text in pixels."""
        return self.paint(text, 1)[1]

    def paint(self, text: str, scale: int) -> tuple[Pixels, float, tuple[float, float]]:
        """Return letters as opacities from 0 to 255, the text's width, and their top left corner from its baseline."""
        return _paint(text, self.size * scale, bold=self.bold)

    def wrap(self, text: str, width: float) -> list[str]:
        """Break the text at spaces into lines of at most ``width`` pixels; break longer words anywhere."""
        lines = [""]
        for word in text.split(" "):
            if lines[-1] and self.width(f"{lines[-1]} {word}") > width:
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
            while self.width(lines[-1]) > width and len(lines[-1]) > 1:
                line = lines.pop()
                length = self._count_fitting(line, width)
                lines += [line[:length], line[length:]]
        return lines

    def _count_fitting(self, line: str, width: float) -> int:
        """Return how many of the line's characters fit, at least one; a mark stays with its letter."""
        length = bisect_right(range(2, len(line)), width, key=lambda n: self.width(line[:n])) + 1
        while length > 1 and unicodedata.category(line[length])[0] == "M":
            length -= 1
        return length


@lru_cache(4096)  # a piece is the label of several maps
def _paint(text: str, size: float, *, bold: bool) -> tuple[Pixels, float, tuple[float, float]]:
    from matplotlib.ft2font import LoadFlags

    font = load_font(text, size, bold=bold)
    with silent_about_glyphs():
        font.set_text(text, flags=LoadFlags.TARGET_LIGHT)
    font.draw_glyphs_to_bitmap()
    opacity = np.array(font.get_image())
    corner = font.get_bitmap_offset()[0] / 64, font.get_descent() / 64 - len(opacity)
    return opacity, font.get_width_height()[0] / 64, corner


class Canvas:
    """Texts, tiles and outlines at positions in pixels from the top left, rendered at once with a scale factor."""

    def __init__(self, width: int, *, bottom: float, scale: int) -> None:
        """Create an empty canvas of this width; callers increase ``bottom``, its height, as they add things."""
        self.width, self.bottom, self.scale = width, bottom, scale
        self._texts: list[tuple[float, float, str, TextStyle, str, bool]] = []
        self._tiles: list[tuple[float, float, Pixels, int]] = []
        self._frames: list[tuple[float, float, int]] = []

    def add_text(
        self, x: float, y: float, text: str, style: TextStyle, *, anchor: str = "l", vertical: bool = False
    ) -> None:
        """Add a line of text.

        Args:
            x: Its left end, middle or right end, as ``anchor`` says.
            y: The middle of its height.
            anchor: "l", "m" or "r".
            vertical: Rotate the text, to be read from bottom to top: x is the middle of its height, y its start.
        """
        self._texts.append((x, y, text, style, anchor, vertical))

    def add_tiles(self, x: float, y: float, colours: Pixels, *, size: int = 1) -> None:
        """Add square tiles with their top left corner at (x, y).

        Args:
            colours: the palette index of each tile.
            size: of a tile, in pixels; from 2 on, its last row and column are a white gap.
        """
        self._tiles.append((x, y, colours, size))

    def add_frame(self, x: float, y: float, size: int) -> None:
        """Outline the square of ``size`` pixels with its top left corner at (x, y)."""
        self._frames.append((x, y, size))

    def render(self) -> "Image":
        """Return everything as a palette image."""
        from PIL import Image, ImageDraw

        report_missing(text for _, _, text, *_ in self._texts)
        scale = self.scale
        image = Image.new("L", (self.width * scale, math.ceil(self.bottom) * scale), WHITE)
        for x, y, colours, size in self._tiles:
            tiles = colours.repeat(size, 0).repeat(size, 1)
            if size > 1:
                tiles[size - 1 :: size] = tiles[:, size - 1 :: size] = WHITE
            image.paste(Image.fromarray(tiles.repeat(scale, 0).repeat(scale, 1)), (round(x * scale), round(y * scale)))
        draw = ImageDraw.Draw(image)
        for x, y, size in self._frames:
            box = [round(edge * scale) for edge in (x - 1, y - 1, x + size, y + size)]
            draw.rectangle(box, outline=OUTLINE, width=2 * scale)
        for left, middle, text, style, anchor, vertical in self._texts:
            opacity, width, (across, down) = style.paint(text, scale)
            across -= width * {"l": 0, "m": 0.5, "r": 1}[anchor]
            down += X_HEIGHT * style.size * scale
            if vertical:
                opacity, across, down = np.rot90(opacity), down, -across - opacity.shape[1]
            letters = Image.fromarray(np.ascontiguousarray(opacity))
            image.paste(style.colour, (round(left * scale + across), round(middle * scale + down)), letters)
        image.putpalette(_palette())
        return image

    def figure(self) -> "Figure":
        """Return everything as a matplotlib figure, whose text and tiles stay shapes in SVG and PDF files."""
        from matplotlib.colors import ListedColormap
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        width, height = self.width, math.ceil(self.bottom)
        colours = np.frombuffer(_palette(), dtype=np.uint8).reshape(-1, 3) / 255
        shades: dict[str, Any] = {"cmap": ListedColormap(colours), "vmin": 0, "vmax": len(colours) - 1}
        figure = Figure(figsize=(width / POINTS, height / POINTS), dpi=POINTS)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        axes.set_axis_off()
        for x, y, tiles, size in self._tiles:
            rows, columns = tiles.shape
            if size == 1:
                axes.imshow(tiles, extent=(x, x + columns, y + rows, y), aspect="auto", interpolation="none", **shades)
            else:
                edges = x + size * np.arange(columns + 1), y + size * np.arange(rows + 1)
                axes.pcolormesh(*edges, tiles, edgecolors="white", linewidth=1, **shades)
        for x, y, size in self._frames:
            axes.add_patch(Rectangle((x, y), size, size, fill=False, linewidth=2, edgecolor=colours[OUTLINE]))
        for left, middle, text, style, anchor, vertical in self._texts:
            x, y = (left + X_HEIGHT * style.size, middle) if vertical else (left, middle + X_HEIGHT * style.size)
            placing: Any = {"ha": {"l": "left", "m": "center", "r": "right"}[anchor], "rotation": 90 if vertical else 0}
            placing |= {"va": "baseline", "rotation_mode": "anchor", "weight": "bold" if style.bold else "normal"}
            axes.text(x, y, text, size=style.size, color=colours[style.colour], parse_math=False, **placing)
        return figure

    def save(self, path: Path) -> None:
        """Write PNG, SVG or PDF, as the suffix of the path says."""
        if path.suffix == ".png":
            self.render().save(path, compress_level=1)  # the fastest
        else:
            save_figure(self.figure(), path)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as SVG or PDF: equal figures become equal files, and PDF text can be edited."""
    from matplotlib import rc_context

    choose_fonts(figure)
    with rc_context({"svg.hashsalt": "heed", "pdf.fonttype": 42}), silent_about_glyphs():
        figure.savefig(path, metadata={"CreationDate" if path.suffix == ".pdf" else "Date": None})


def shade(weights: npt.NDArray[np.floating[Any]]) -> Pixels:
    """Return palette indices for weights from 0 to 1: the square root makes small weights visible."""
    return (np.sqrt(np.clip(weights, 0, 1)) * FULL).round().astype(np.uint8)


def is_wide(character: str) -> bool:
    """Return whether a character is full-width: Chinese, Japanese or Korean."""
    return unicodedata.east_asian_width(character) in "WF"


@cache
def _palette() -> bytes:
    """Return 256 colours, RGB."""
    from matplotlib import colormaps

    blues = colormaps["Blues"](np.linspace(0.04, 1, FULL + 1), bytes=True)[:, :3]
    frame = np.array([(217, 95, 2)], dtype=np.uint8)
    greys = np.linspace((27, 33, 48), (255, 255, 255), WHITE - INK + 1)
    return bytes(np.concatenate([blues, frame, greys.round().astype(np.uint8)]).tobytes())
