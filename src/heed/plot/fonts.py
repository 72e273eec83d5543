"""The text and the files of pictures, with the letters of installed fonts where matplotlib's DejaVu Sans lacks them.

matplotlib joins letters, orders text from right to left, and takes each letter from the first font that has it.
"""

import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heed.progress import print_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.path import Path as MatplotlibPath

DEFAULT = "DejaVu Sans"
_reported: set[str] = set()


def choose_fonts(artist: "Artist") -> None:
    """Give each text of a matplotlib figure, axes or text the fonts that it needs."""
    from matplotlib.text import Text

    for text in artist.findobj(Text):
        if not text.get_text().isascii() and (families := fallback_families(text.get_text())):
            text.set_fontfamily([*text.get_fontfamily(), DEFAULT, *families])


@lru_cache(4096)
def fallback_families(text: str) -> Sequence[str]:
    """Return installed fonts that together have the characters of the text that DejaVu Sans lacks, as far as possible.

    A font with more of the characters comes first, so that the letters of a word are of one font. Print a line, once in
    a process, for each script with characters that no font has.
    """
    families, missing = [], _visible(text) - _default_characters()
    while missing:
        family, characters = max(_installed(), key=lambda font: len(missing & font[1]), default=("", frozenset()))
        if not missing & characters:
            break
        families.append(family)
        missing -= characters
    scripts = {unicodedata.name(each, "unknown").split()[0].capitalize() for each in missing} - _reported
    if scripts:
        _reported.update(scripts)
        print_line(
            f"No installed font has {', '.join(sorted(scripts))} characters: install fonts-noto-core and "
            "fonts-noto-cjk, or another font that has them."
        )
    return families


@lru_cache(4096)  # a piece is the label of several maps
def text_path(text: str, size: float, *, bold: bool = False) -> "MatplotlibPath":
    """Return the outlines of a line of text, in points to the right of and above the start of its baseline.

    They are drawn ten times as fast as matplotlib's texts, of which a picture of all heads has hundreds.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import text_to_path

    families = [DEFAULT, *fallback_families(text)]
    font = FontProperties(family=families, weight="bold" if bold else "normal")
    with _silent_about_glyphs():
        vertices, codes = text_to_path.get_text_path(font, text)
    return Path(np.reshape(vertices, (-1, 2)) * size / text_to_path.FONT_SCALE, codes)


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text, in points."""
    return float(np.max(np.asarray(text_path(text, size).vertices), axis=0, initial=0)[0])


def wrap(text: str, size: float, width: float) -> list[str]:
    """Break the text at spaces into lines of at most ``width`` points; break longer words at any letter."""
    words = [f"{word} " for word in text.split()]
    parts = [part for word in words for part in ([word] if text_width(word, size) <= width else word)]
    lines = [""]
    for part in parts:
        stays = part == " " or unicodedata.category(part[0])[0] == "M"  # with the word or the letter before it
        if lines[-1] and not stays and text_width(lines[-1] + part.rstrip(), size) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def save_figure(figure: "Figure", file: Path | BytesIO) -> None:
    """Write a figure as PNG, SVG or PDF, as the suffix says. Equal figures become equal files."""
    from matplotlib import rc_context

    kind = file.suffix[1:] if isinstance(file, Path) else "png"
    options: dict[str, dict[str, Any]] = {
        "png": {"pil_kwargs": {"compress_level": 1}},  # the fastest
        "svg": {"metadata": {"Date": None}},
        "pdf": {"metadata": {"CreationDate": None}},
    }
    choose_fonts(figure)
    # Text of PDF files can be edited.
    with rc_context({"svg.hashsalt": "heed", "pdf.fonttype": 42}), _silent_about_glyphs():
        figure.savefig(file, format=kind, **options[kind])


@contextmanager
def _silent_about_glyphs() -> Iterator[None]:
    """Silence matplotlib's warning of a missing letter: `fallback_families` has reported its script."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _visible(text: str) -> set[str]:
    """Return the characters that need a glyph: neither spaces nor control, joining and variation characters."""
    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
    return {each for each in text if unicodedata.category(each) not in unseen and not "\ufe00" <= each <= "\ufe0f"}


@cache
def _installed() -> list[tuple[str, frozenset[str]]]:
    """Return the family and the characters of all upright fonts of normal weight, sans-serif ones first."""
    from matplotlib.font_manager import findSystemFonts, fontManager
    from matplotlib.ft2font import FT2Font, StyleFlags

    found = []
    for file in findSystemFonts():
        with suppress(OSError, RuntimeError):  # a folder, a damaged file, a kind that FreeType cannot read
            font = FT2Font(file)
            if font.scalable and font.style_flags == StyleFlags.NORMAL:
                fontManager.addfont(file)  # matplotlib's own list is older than fonts that were installed since
                name = font.family_name
                found.append((font.style_name != "Regular", "Sans" not in name, "Mono" in name, name, file))
    return [(name, frozenset(map(chr, FT2Font(file).get_charmap()))) for *_, name, file in sorted(found)]


@cache
def _default_characters() -> frozenset[str]:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(findfont(DEFAULT)).get_charmap()))
