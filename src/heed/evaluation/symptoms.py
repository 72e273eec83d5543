"""Symptoms of a broken translation system in single sentences, which corpus scores hide."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from heed.characters import PROTECTED, normalized, scripts

REPEATED_WORDS = re.compile(r"(?<!\S)(\S+(?: \S+){0,3})(?: \1){2}(?!\S)")
"""The same one to four words three times in a row."""
REPEATED_LETTERS = re.compile(r"([^\W\d]{2,10}?)\1{3}", re.IGNORECASE)
"""The same two to ten letters four times in a row."""
UNKNOWN = "⁇"  # SentencePiece's text for an unknown piece
LENGTH_TOLERANCE = 10  # characters that are added to the length limits, so that short sentences are not flagged
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SYMPTOMS: Mapping[str, str] = _TABLES["scored"]  # the name of each symptom, and its definition
TRANSLATION_SYMPTOMS: Mapping[str, Mapping[str, str]] = _TABLES["translation"]
"""The symptoms of a translation without a reference, with their meaning and their messages."""


def find_symptoms(sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, list[int]]:
    """Return the sentences that show each of `SYMPTOMS`, counted from 0."""
    known_scripts = scripts(references)
    shown: list[dict[str, bool]] = [
        {
            "empty": bool(ref) and not hyp,
            "too short": bool(hyp) and 2 * len(hyp) + LENGTH_TOLERANCE < len(ref),
            "too long": len(hyp) > 2 * len(ref) + LENGTH_TOLERANCE,
            "repeats": has_repeats(hyp) and not has_repeats(ref),
            "copied source": src.casefold() == hyp.casefold() != ref.casefold() and bool(hyp),
            "foreign letters": not scripts([hyp]) <= known_scripts,
            "unknown pieces": UNKNOWN in hyp and UNKNOWN not in ref,
            "other spans": _spans(hyp) != _spans(src) == _spans(ref) and bool(hyp),
        }
        for src, ref, hyp in zip(*(map(normalized, side) for side in (sources, references, hypotheses)), strict=True)
    ]
    return {name: [i for i, sentence in enumerate(shown) if sentence[name]] for name in SYMPTOMS}


def translation_symptoms(source: str, translation: str, *, finished: bool, best_is_empty: bool) -> tuple[str, ...]:
    """Return which of `TRANSLATION_SYMPTOMS` a translation shows; ``finished``: see `Translation`."""
    has_text = bool(translation.strip())
    shown = {
        "empty": bool(source.strip()) and not has_text,
        "second choice": best_is_empty and has_text,
        "cut off": not finished,
        "repeats": has_repeats(translation) and not has_repeats(source),
        "unknown pieces": UNKNOWN in translation and UNKNOWN not in source,
    }
    return tuple(name for name, is_shown in shown.items() if is_shown)


def _spans(line: str) -> list[str]:
    return sorted(PROTECTED.findall(line))


def has_repeats(line: str) -> bool:
    """Return whether a phrase or a group of letters is repeated, as by a model in a loop."""
    return bool(REPEATED_WORDS.search(line) or REPEATED_LETTERS.search(line))
