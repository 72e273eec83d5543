"""Signs of a sick system, sentence by sentence: what no average score shows."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

REPEATED_WORDS = re.compile(r"(?<!\S)(\S+(?: \S+){0,3})(?: \1){2}(?!\S)")
REPEATED_LETTERS = re.compile(r"([^\W\d]{2,10}?)\1{3}", re.IGNORECASE)
"""Three times the same one to four words on end, or four times the same two to ten letters."""
UNKNOWN = "⁇"
"""What SentencePiece writes for an unknown piece."""

MONITORS: Mapping[str, str] = {
    "empty": "nothing, where the reference says something",
    "too short": "less than half as many characters as the reference",
    "too long": "more than twice as many characters as the reference",
    "repeats": "a phrase three times on end, which the reference has not",
    "copied source": "the source itself, which the reference is not",
    "foreign letters": "letters of a script that no reference uses",
    "unknown pieces": f"{UNKNOWN}, which stands for what the vocabulary cannot write",
}
"""What is looked for, and what it means."""

SLACK = 10
"""Characters by which a short sentence may be shorter or longer without being wrong."""


def symptoms(sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, list[int]]:
    """By each of `MONITORS`, the sentences that show it, counted from 0."""
    known = _scripts(references)
    found: dict[str, list[int]] = {name: [] for name in MONITORS}
    for i, (src, ref, hyp) in enumerate(zip(sources, references, hypotheses, strict=True)):
        shows = {
            "empty": bool(ref.strip()) and not hyp.strip(),
            "too short": bool(hyp.strip()) and 2 * len(hyp) + SLACK < len(ref),
            "too long": len(hyp) > 2 * len(ref) + SLACK,
            "repeats": _repeats(hyp) and not _repeats(ref),
            "copied source": _plain(src) == _plain(hyp) != _plain(ref) and bool(hyp.strip()),
            "foreign letters": not _scripts([hyp]) <= known,
            "unknown pieces": UNKNOWN in hyp and UNKNOWN not in ref,
        }
        for name in found:
            if shows[name]:
                found[name].append(i)
    return found


def _repeats(line: str) -> bool:
    return bool(REPEATED_WORDS.search(line) or REPEATED_LETTERS.search(line))


def _plain(line: str) -> str:
    return " ".join(line.casefold().split())


def _scripts(lines: Iterable[str]) -> set[str]:
    return {_script(letter) for letter in set().union(*lines) if letter.isalpha()}


@cache
def _script(letter: str) -> str:
    """The first word of a letter's name is its script's: LATIN SMALL LETTER A."""
    return unicodedata.name(letter, "unnamed").split()[0]
