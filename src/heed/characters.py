"""Invisible characters: which ones are spelling, which are left-overs; spans that are no words; text to compare."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_PATTERNS = {
    name: re.compile(pattern.format(**_TABLE["classes"]), re.VERBOSE) for name, pattern in _TABLE["patterns"].items()
}
_INVISIBLE, _PRINTABLE = _PATTERNS["invisible"], _PATTERNS["printable"]
_FAULT = re.compile("|".join(_PATTERNS[name].pattern for name in ("invisible", "printable", "line_end")), re.VERBOSE)

EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff]"
PRIVATE_USE = re.compile("[\ue000-\uf8ff]")
PROTECTED = re.compile(
    rf"""</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]\w*|\#\d+|\#x[\da-fA-F]+);  # tags and characters of HTML
    |\$?\{{\{{[^{{}}]*\}}\}}|\$?\{{[^{{}}]*\}}                       # {{name}}, ${{name}}, {{{{name}}}}
    |(?<![\d%])%(?:\(\w+\)|\d+\$)?[-+\#0]*\d*(?:\.\d+)?[sdifgxXu@](?!\w)  # %s, %(name)d, %1$s, %.2f
    |(?:\w+://|www\.)[^\s<>"]*[^\s<>".,;:!?)\]}}'’”»]
    |[\w.+-]+@[\w-]+(?:\.[\w-]+)+
    |\b(?:[A-Za-z]+[-_]?\d\w*(?:[-.]\d\w*)*|\d+[A-Za-z]+\d\w*|\w+_\w+)\b  # B12, COVID-19, 3f9a, user_name; not 5km
    |[\U0001f1e6-\U0001f1ff]{{2}}|{EMOJI}(?:[\ufe0f\U0001f3fb-\U0001f3ff]|\u200d{EMOJI})*
    |{PRIVATE_USE.pattern}                                         # a placeholder, if a user types it
    """,
    re.VERBOSE,
)
"""Text that stays as it is: variables, tags, addresses, identifiers."""
MAY_BE_PROTECTED = re.compile(rf"[<&{{%/@_\d]|www|[\U0001f1e6-\U0001f1ff]|{EMOJI}|{PRIVATE_USE.pattern}")
"""A character or word that every protected text has: a fast first question."""


def normalized(text: str) -> str:
    """Return the text as it is compared: in NFC, without invisible characters, with single spaces, and stripped.

    Invisible characters that are spelling, such as ZWNJ in Persian and ZWJ in emoji, are kept.
    """
    is_printable = text.isprintable()
    if not is_printable:
        text = _INVISIBLE.sub(r"\1", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    # " " is the only white space that is printable.
    return text.strip() if is_printable and "  " not in text else " ".join(text.split())


def find_invisible(line: str) -> list[str]:
    """Return the invisible and control characters of a line that are not spelling, in order; tabs are left out.

    Spelling are joiners and variants where a script or an emoji has them, directional marks in lines with right-to-left
    letters, and U+200B between words of scripts without spaces, such as Khmer and Thai.
    """
    if line.isprintable() and (line.isascii() or _PRINTABLE.search(line) is None):
        return []
    found = [match[0] for match in _FAULT.finditer(_PATTERNS["word_end"].sub("", line)) if match[1] is None]
    is_spelling = _PATTERNS["directional"].match if _PATTERNS["right_to_left"].search(line) else lambda _: None
    return [character for character in found if not is_spelling(character)]


def has_no_break_space(line: str) -> bool:
    """Return whether a no-break space is between two letters. Next to digits and punctuation it is typography."""
    return _PATTERNS["no_break_space"].search(line) is not None


def scripts(lines: Iterable[str]) -> set[str]:
    """Return the scripts of all letters. Compatibility forms such as º and Ａ have the script of their letter."""
    letters = unicodedata.normalize("NFKC", "".join(set().union(*lines)))
    return {script(letter) for letter in letters if letter.isalpha()}


@cache
def script(letter: str) -> str:
    """Return the script of a letter: the first word of its Unicode name (LATIN SMALL LETTER A)."""
    return unicodedata.name(letter, "unnamed").split()[0]
