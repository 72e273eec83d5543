"""Contrastive accuracy: how often a model prefers the correct translation to a minimally wrong one (Sennrich 2017)."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from heed.errors import HeedError

if TYPE_CHECKING:
    from heed.inference.translator import Translator


class Contrast(Protocol):
    """A source sentence with a correct and a minimally wrong translation."""

    @property
    def src(self) -> str: ...
    @property
    def good(self) -> str: ...
    @property
    def bad(self) -> str: ...
    @property
    def tag(self) -> str: ...


@dataclass(frozen=True)
class ReadContrast:
    """A `Contrast` read from a file."""

    src: str
    good: str
    bad: str
    tag: str


@dataclass(frozen=True)
class Accuracy:
    """The number of contrasts for which a model prefers the correct translation."""

    right: int
    total: int

    @property
    def fraction(self) -> float:
        """The accuracy, from 0 to 1; chance is 0.5."""
        return self.right / self.total


def contrastive_accuracy(translator: "Translator", contrasts: Sequence[Contrast]) -> dict[str, Accuracy]:
    """Return by tag how often the log-probability, summed over tokens, prefers the good translation; ties are wrong."""
    sources = [contrast.src for contrast in contrasts]
    good = translator.score(sources, [contrast.good for contrast in contrasts])
    bad = translator.score(sources, [contrast.bad for contrast in contrasts])
    total = Counter(contrast.tag for contrast in contrasts)
    right = Counter(c.tag for c, better, worse in zip(contrasts, good, bad, strict=True) if better > worse)
    return {tag: Accuracy(right[tag], total[tag]) for tag in total}


def read_challenge(path: Path) -> list[ReadContrast]:
    """Read a challenge set in JSONL: each line is an object with the strings "src", "good", "bad" and "tag".

    Raises:
        HeedError: The file cannot be read, has no contrasts, or has a line of another form.
    """
    try:
        lines = path.read_bytes().decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise HeedError(f"--challenge {path} cannot be read: {error}.") from error
    contrasts = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            contrasts.append(
                ReadContrast(**{name: _check_string(fields[name]) for name in ("src", "good", "bad", "tag")})
            )
        except (ValueError, TypeError, KeyError) as error:
            raise HeedError(
                f'Line {number} of {path} is not a contrast: write a JSON object with the strings "src", "good", '
                '"bad" and "tag".'
            ) from error
    if not contrasts:
        raise HeedError(f"{path} has no contrasts: write at least one line.")
    return contrasts


def _check_string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
