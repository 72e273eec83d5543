"""Symptoms of a broken translation system in single sentences, which corpus scores hide."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from heed.characters import normalized

REPEATED_WORDS = re.compile(r"(?<!\S)(\S+(?: \S+){0,3})(?: \1){2}(?!\S)")
"""The same one to four words three times in a row."""
REPEATED_LETTERS = re.compile(r"([^\W\d]{2,10}?)\1{3}", re.IGNORECASE)
"""The same two to ten letters four times in a row."""
UNKNOWN = "⁇"
"""SentencePiece's text for an unknown piece."""

SYMPTOMS: Mapping[str, str] = {
    "empty": "no text, but the reference has some",
    "too short": "less than half as many characters as the reference",
    "too long": "more than twice as many characters as the reference",
    "repeats": "a phrase three times in a row, but not in the reference",
    "copied source": "equal to the source, but the reference is not",
    "foreign letters": "letters of a script that no reference uses",
    "unknown pieces": f"{UNKNOWN}, the text of an unknown piece, but not in the reference",
}
"""The name of each symptom, and its definition."""

LENGTH_TOLERANCE = 10
"""Characters that are added to the length limits, so that short sentences are not flagged."""


def find_symptoms(sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, list[int]]:
    """Return the sentences that show each of `SYMPTOMS`, counted from 0."""
    known_scripts = scripts(references)
    shown: list[dict[str, bool]] = [
        {
            "empty": bool(ref) and not hyp,
            "too short": bool(hyp) and 2 * len(hyp) + LENGTH_TOLERANCE < len(ref),
            "too long": len(hyp) > 2 * len(ref) + LENGTH_TOLERANCE,
            "repeats": _has_repeats(hyp) and not _has_repeats(ref),
            "copied source": src.casefold() == hyp.casefold() != ref.casefold() and bool(hyp),
            "foreign letters": not scripts([hyp]) <= known_scripts,
            "unknown pieces": UNKNOWN in hyp and UNKNOWN not in ref,
        }
        for src, ref, hyp in zip(*(map(normalized, side) for side in (sources, references, hypotheses)), strict=True)
    ]
    return {name: [i for i, sentence in enumerate(shown) if sentence[name]] for name in SYMPTOMS}


def _has_repeats(line: str) -> bool:
    return bool(REPEATED_WORDS.search(line) or REPEATED_LETTERS.search(line))


def scripts(lines: Iterable[str]) -> set[str]:
    """Return the scripts of all letters. Compatibility forms such as º and Ａ have the script of their letter."""
    letters = unicodedata.normalize("NFKC", "".join(set().union(*lines)))
    return {script(letter) for letter in letters if letter.isalpha()}


@cache
def script(letter: str) -> str:
    """Return the script of a letter: the first word of its Unicode name (LATIN SMALL LETTER A)."""
    return unicodedata.name(letter, "unnamed").split()[0]
