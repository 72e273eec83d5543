"""Invisible characters: which ones are spelling, which are left-overs of other programs; and text as it is compared."""

import re
import unicodedata

_CURSIVE = (
    "\u0620-\u085f\u0870-\u08ff\u1800-\u18af\ua840-\ua877\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010d00-\U00010d3f\U0001e900-\U0001e95f"
)
"""Scripts that join letters, such as Arabic and Mongolian: ZWNJ separates two letters, as in Persian plurals."""
_INDIC = (
    "\u0900-\u0dff\u0f00-\u109f\u1700-\u17ff\u1900-\u1cff\ua800-\ua82f\ua880-\uaaff\uabc0-\uabff\U00011000-\U00011fff"
)
"""Scripts of South and South East Asia: a joiner after a letter or a virama selects the form of a cluster."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
"""Symbols that ZWJ combines."""
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u1950-\u1aaf\u1b00-\u1bbf\ua980-\uaa7f"
"""Scripts without spaces between words, which may have U+200B instead: Thai, Lao, Tibetan, Burmese, Khmer, ..."""

_SPELLING = (
    f"(?<=[{_INDIC}])[\u200c\u200d]|(?<=[^\\s\u200c])\u200c(?=\u200c*[{_CURSIVE}{_INDIC}])"
    f"|(?<=[{_CURSIVE}])\u200d|\u200d(?=[{_CURSIVE}])"
    "|(?<=[\u1800-\u18af])[\u180b-\u180f]"  # Mongolian variants and vowel separator
    f"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
    "|(?<=[\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]"  # flags of regions, such as Scotland
    "|(?<=[^\\sA-Za-z\u00c0-\u024f])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"  # variants of symbols and Han characters
)
"""Invisible characters where they are spelling. A second ZWNJ in a row is not."""

_INVISIBLE = re.compile(
    f"({_SPELLING})|[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""An invisible character, or a control character. Group 1 matches only if it is spelling."""

_PRINTABLE = re.compile("[\u034f\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Invisible letters and marks. They are so rare that they are not looked for whenever text is compared."""

_FAULT = re.compile(f"{_INVISIBLE.pattern}|{_PRINTABLE.pattern}|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
"""Also characters at which some programs end a line."""

_WORD_END = re.compile(f"(?<=[{_UNSPACED}])\u200b(?=[{_UNSPACED}])")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_DIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NO_BREAK_SPACE = re.compile(r"(?<=[^\W\d_])[\u00a0\u2007\u202f](?=[^\W\d_])")


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
    allowed = _DIRECTIONAL if _RIGHT_TO_LEFT.search(line) else frozenset[str]()
    found = [match[0] for match in _FAULT.finditer(_WORD_END.sub("", line)) if match[1] is None]
    return [character for character in found if character not in allowed]


def has_no_break_space(line: str) -> bool:
    """Return whether a no-break space is between two letters. Next to digits and punctuation it is typography."""
    return _NO_BREAK_SPACE.search(line) is not None


def has_repeated_spaces(line: str) -> bool:
    """Return whether there are two spaces in a row inside the line."""
    return "  " in line.strip()


def is_decomposed(line: str) -> bool:
    """Return whether the line is not in NFC, for instance because accents are separate characters."""
    return not unicodedata.is_normalized("NFC", line)
