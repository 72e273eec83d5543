"""Invisible characters, where they are spelling and where not, and text as it is compared."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heed.characters import find_invisible, has_no_break_space, normalized

WRONG = {
    "zero-width space": ("The lamp is old.\u200b", "\u200b"),
    "byte order mark": ("\ufeffThe lamp is old.", "\ufeff"),
    "soft hyphen": ("The la\u00admp is old.", "\u00ad"),
    "word joiner": ("The lamp\u2060 is old.", "\u2060"),
    "directional marks": ("\u202aThe lamp is old.\u202c", "\u202a\u202c"),
    "ZWNJ between Latin letters": ("The la\u200cmp is old.", "\u200c"),
    "ZWJ between Latin letters": ("The la\u200dmp is old.", "\u200d"),
    "ZWJ after an emoji": ("The lamp is old.🔥\u200d", "\u200d"),
    "control characters": ("The\x01 lamp is old\x7f.\x80", "\x01\x7f\x80"),
    "grapheme joiner": ("The la\u034fmp is old.", "\u034f"),
    "variation selector after a letter": ("The lamp\ufe0f is old.", "\ufe0f"),
    "hidden ASCII": ("The lamp is old.\U000e0041", "\U000e0041"),
    "a second ZWNJ": ("می\u200c\u200cروم", "\u200c"),
    "ZWNJ at the end of a Persian word": ("می\u200c روم", "\u200c"),
    "Hangul filler": ("The lamp is old.\u3164", "\u3164"),
}
"""By name: a line, and the characters in it that are not spelling."""

SPELLING = {
    "Persian": "می\u200cروم و کتاب\u200cها و PDF\u200cها",
    "Persian abbreviation": "ه\u200d.",
    "Hindi": "क्\u200dष और क्\u200cष",
    "Bengali khanda ta": "উত্\u200d",
    "Bengali ya-phalaa": "র\u200d্যাব",
    "Malayalam chillu": "അവന്\u200d",
    "Sinhala": "ශ්\u200dරී ලංකාව",
    "Mongolian": "ᠠ\u180eᠡ\u180b",
    "family": "👨\u200d👩\u200d👧 and 🏳\ufe0f\u200d🌈 and 👩🏽\u200d⚕\ufe0f and ❤\ufe0f",
    "keycap": "1\ufe0f⃣",
    "flag of Scotland": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "Han variant": "葛\U000e0100城市",
    "plain": "The lamp is old. Das Mädchen; 昨天; привет.",
}
"""Lines whose invisible characters are spelling."""


@pytest.mark.parametrize("name", WRONG)
def test_left_overs_are_found_and_not_compared(name: str) -> None:
    line, characters = WRONG[name]
    assert "".join(find_invisible(line)) == characters
    if characters.isprintable():  # letters and marks for Unicode
        return
    clean = line.replace("\u200c\u200c", "\u200c") if name == "a second ZWNJ" else line
    clean = clean if clean != line else "".join(char for char in line if char not in characters)
    assert normalized(line) == clean


@pytest.mark.parametrize("line", SPELLING.values(), ids=SPELLING)
def test_spelling_is_kept(line: str) -> None:
    assert find_invisible(line) == []
    assert normalized(line) == unicodedata.normalize("NFC", line)


def test_marks_of_other_scripts_are_no_faults_but_are_not_compared() -> None:
    for line, plain in (
        ("ភាសា\u200bខ្មែរ", "ភាសាខ្មែរ"),
        ("ประเทศ\u200bไทย", "ประเทศไทย"),
        ("שלום \u200f(heed)\u200e!", "שלום (heed)!"),
    ):
        assert find_invisible(line) == []
        assert normalized(line) == plain


@pytest.mark.parametrize(
    "line",
    [
        *("The  hat is old.", " The hat is old. ", "The\u00a0hat is\u3000old.", "The\that\x0bis\u2028old.\x85"),
        "The hat\u200b \u00a0is old.\u00a0",
    ],
)
def test_white_space_is_one_space(line: str) -> None:
    assert normalized(line) == "The hat is old."


def test_line_ends_of_other_programs_are_found() -> None:
    assert find_invisible("a\tb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h") == [*"\x0b\x0c\x1c\x85\u2028\u2029"]


def test_no_break_spaces_and_accents() -> None:
    assert has_no_break_space("The\u00a0hat")
    assert has_no_break_space("der\u202fHut")
    assert not any(map(has_no_break_space, ("10\u00a0000 km", "Vraiment\u00a0?", "«\u202foui\u202f»", "The hat")))
    assert normalized("cafe\u0301") == normalized("cafe\u200b\u0301") == "café"


@given(st.text())
@example("a\ufe0f\u200d🔥")
@example("e\u200c\u0301")
def test_normal_text_is_normal(text: str) -> None:
    once = normalized(text)
    assert normalized(once) == once
    assert all(map(str.isprintable, find_invisible(once)))


def test_every_format_character_is_known() -> None:
    """Format characters that are visible or belong to notations of their own are the only ones that are kept."""
    kept = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) == "Cf" and normalized(f"a{chr(code)}a") != "aa"
    ]
    names = {unicodedata.name(character) for character in kept}
    expected = (
        "NUMBER SIGN",
        "NUMBER MARK",
        "SIGN SANAH",
        "FOOTNOTE MARKER",
        "SIGN SAFHA",
        "SIGN SAMVAT",
        "END OF AYAH",
        "ABBREVIATION MARK",
        "POUND MARK",
        "PIASTRE MARK",
        "DISPUTED END",
        "HIEROGLYPH",
        "SHORTHAND FORMAT",
        "MUSICAL",
    )
    assert [name for name in names if not any(word in name for word in expected)] == []
