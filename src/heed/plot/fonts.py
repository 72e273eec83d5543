"""The fonts of pictures: matplotlib's DejaVu Sans and, for characters that it lacks, other installed fonts.

matplotlib joins letters, orders text from right to left, and takes each letter from the first font that has it.
"""

import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from heed.progress import print_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.ft2font import FT2Font

LANGUAGES = {"HIRAGANA": "Japanese", "KATAKANA": "Japanese", "CJK": "Chinese", "HANGUL": "Korean",
             "ETHIOPIC": "Amharic"}  # fmt: skip
"""Scripts, as Unicode names them, that are better known by a language."""
_reported: set[str] = set()


def load_font(text: str, size: float, *, bold: bool) -> "FT2Font":
    """Return a font of ``size`` pixels, with fallbacks for the characters of the text."""
    from matplotlib.font_manager import get_font

    font = get_font([_default_file(bold=bold), *fallback_files(text)])
    font.set_size(size, 72)
    return font


def fallback_files(text: str) -> Sequence[Path]:
    """Return installed fonts that together have the characters of the text that DejaVu Sans lacks, as far as possible.

    A font with more of the characters comes first, so that the letters of a word are of one font.
    """
    files, missing = [], _visible(text) - _characters(_default_file())
    while missing:
        best = max(_installed(), key=lambda file: len(missing & _characters(file)), default=_default_file())
        if not missing & _characters(best):
            break
        files.append(best)
        missing -= _characters(best)
    return files


def choose_fonts(artist: "Artist") -> None:
    """Give each text of a matplotlib figure or axes the fonts that it needs, and report letters that no font has."""
    from matplotlib.text import Text

    texts = [text for text in artist.findobj(Text) if not text.get_text().isascii()]
    for text in texts:
        if files := fallback_files(text.get_text()):
            text.set_fontfamily([*text.get_fontfamily(), *map(_family, [_default_file(), *files])])
    report_missing(text.get_text() for text in texts)


def report_missing(texts: Iterable[str]) -> None:
    """Print a line, once in a process, for each script with letters that no installed font has."""
    text = "".join(texts)
    missing = _visible(text).difference(_characters(_default_file()), *map(_characters, fallback_files(text)))
    scripts = {_script(character) for character in missing}
    if "Japanese letters" in scripts:
        scripts.discard("Chinese letters")  # kanji
    for script in sorted(scripts - _reported):
        package = "cjk" if script.partition(" ")[0] in ("Chinese", "Japanese", "Korean") else "core"
        print_line(f"No font with {script}: install fonts-noto-{package}, or another font that has them.")
    _reported.update(scripts)


@contextmanager
def silent_about_glyphs() -> Iterator[None]:
    """Silence matplotlib's warning of a missing letter inside the block: `report_missing` has reported its script."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _script(character: str) -> str:
    """Return what to call a character: the letters of its script, which its Unicode name begins with; or itself."""
    if unicodedata.category(character)[0] not in "LM":
        return character
    script = unicodedata.name(character, "unknown").partition(" ")[0]
    return f"{LANGUAGES.get(script, script.capitalize())} letters"


def _visible(text: str) -> set[str]:
    """Return the characters that need a glyph: neither spaces nor control, joining and variation characters."""
    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
    return {each for each in text if unicodedata.category(each) not in unseen and not "\ufe00" <= each <= "\ufe0f"}


@cache
def _installed() -> list[Path]:
    """Return all upright fonts of normal weight, sans-serif ones first."""
    from matplotlib.font_manager import findSystemFonts
    from matplotlib.ft2font import FT2Font, StyleFlags

    found = []
    for file in findSystemFonts():
        with suppress(OSError, RuntimeError):  # a folder, a damaged file, a kind that FreeType cannot read
            font = FT2Font(file)
            if font.scalable and font.style_flags == StyleFlags.NORMAL:
                name = font.family_name
                found.append((font.style_name != "Regular", "Sans" not in name, "Mono" in name, name, file))
    return [Path(file) for *_, file in sorted(found)]


@cache
def _characters(file: Path) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(file).get_charmap()))


@cache
def _family(file: Path) -> str:
    """Return the name of a font's family, by which matplotlib then finds the font."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    fontManager.addfont(file)  # its own list is older than fonts that were installed since
    return str(FT2Font(file).family_name)


@cache
def _default_file(*, bold: bool = False) -> Path:
    from matplotlib.font_manager import FontProperties, findfont

    return Path(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
