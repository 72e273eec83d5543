"""Drawing primitives: a canvas of text and tiles, fonts, and the colour palette.

Pillow paints the pixels; matplotlib supplies the colour map and the fonts.
"""

import math
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

Pixels = npt.NDArray[np.uint8]
"""Palette indices, "height width"."""

FULL, INK, SOFT_INK, WHITE = 199, 200, 218, 255
"""Palette indices: 0 to `FULL` are weights from light to dark blue, `INK` to `WHITE` are greys from the colour of text
to white, so that antialiased text needs no other colours."""
CJK_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR", "Noto Sans JP", "Noto Sans SC", "Noto Sans KR",
    "Source Han Sans", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "IPAGothic", "IPAexGothic", "Droid Sans Fallback",
    "Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic",
    "Arial Unicode MS",
)  # fmt: skip


@dataclass(frozen=True)
class TextStyle:
    """Size, colour and weight of a text."""

    size: float
    """Pixels."""
    colour: int = INK
    """Palette index."""
    bold: bool = False

    def font(self, text: str, scale: int) -> "FreeTypeFont":
        """Return a font that has the characters of the text, if one is installed."""
        return _load_font(self.size * scale, bold=self.bold, wide=any(map(is_wide, text)))

    def width(self, text: str) -> float:
        """Return the width of the text in pixels."""
        return self.font(text, 1).getlength(text)

    def wrap(self, text: str, width: float) -> list[str]:
        """Break the text at spaces into lines of at most ``width`` pixels; break longer words anywhere."""
        lines = [""]
        for word in text.split(" "):
            if lines[-1] and self.width(f"{lines[-1]} {word}") > width:
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
            while self.width(lines[-1]) > width and len(lines[-1]) > 1:
                line = lines.pop()
                length = next((n for n in range(len(line) - 1, 1, -1) if self.width(line[:n]) <= width), 1)
                lines += [line[:length], line[length:]]
        return lines


class Canvas:
    """Texts and tiles at positions in pixels from the top left, rendered at once with a scale factor."""

    def __init__(self, width: int, *, bottom: float, scale: int) -> None:
        """Create an empty canvas of this width; callers increase ``bottom``, its height, as they add things."""
        self.width, self.bottom, self.scale = width, bottom, scale
        self._texts: list[tuple[float, float, str, TextStyle, str, bool]] = []
        self._tiles: list[tuple[float, float, Pixels]] = []

    def add_text(
        self, x: float, y: float, text: str, style: TextStyle, *, anchor: str = "l", vertical: bool = False
    ) -> None:
        """Add a line of text.

        Args:
            x: Its left end, middle or right end, as ``anchor`` says.
            y: The middle of its height.
            text: The text.
            style: Size and colour.
            anchor: "l", "m" or "r".
            vertical: Rotate the text, to be read from bottom to top: x is the middle of its height, y its start.
        """
        self._texts.append((x, y, text, style, anchor, vertical))

    def add_tiles(self, x: float, y: float, tiles: Pixels) -> None:
        """Add an image of palette indices with its top left corner at (x, y)."""
        self._tiles.append((x, y, tiles))

    def render(self) -> "Image":
        """Return everything as a palette image."""
        from PIL import Image, ImageDraw

        scale = self.scale
        image = Image.new("L", (self.width * scale, math.ceil(self.bottom) * scale), WHITE)
        for x, y, tiles in self._tiles:
            image.paste(Image.fromarray(tiles.repeat(scale, 0).repeat(scale, 1)), (round(x * scale), round(y * scale)))
        draw = ImageDraw.Draw(image)
        for left, middle, text, style, anchor, vertical in self._texts:
            x, y, font = left * scale, middle * scale, style.font(text, scale)
            if not vertical:
                draw.text((x, y), text, style.colour, font, anchor=f"{anchor}m")
                continue
            length, height = math.ceil(font.getlength(text)) + 1, sum(font.getmetrics())
            mask = Image.new("L", (length, height))
            ImageDraw.Draw(mask).text((0, height / 2), text, 255, font, anchor="lm")
            corner = round(x - height / 2), round(y) - length
            image.paste(style.colour, corner, mask.transpose(Image.Transpose.ROTATE_90))
        image.putpalette(_palette())
        return image


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
    greys = np.linspace((27, 33, 48), (255, 255, 255), WHITE - INK + 1)
    return bytes(np.concatenate([blues, greys.round().astype(np.uint8)]).tobytes())


@cache
def _load_font(size: float, *, bold: bool, wide: bool) -> "FreeTypeFont":
    """Load matplotlib's DejaVu Sans; for ``wide`` characters a CJK font, if one is installed."""
    from matplotlib import font_manager
    from PIL import ImageFont

    file: str = font_manager.findfont(
        font_manager.FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    )
    if wide:
        installed = {font.name: font.fname for font in font_manager.fontManager.ttflist}
        file = next((installed[name] for name in CJK_FONTS if name in installed), file)
    # The default layout engine, raqm, fails on some strings; pieces need no complex text layout.
    return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)
