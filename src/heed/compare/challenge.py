"""Contrastive accuracy: is the right translation likelier to a model than a minimally wrong one (Sennrich 2017)?"""

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
    """A source, and two translations of it that differ in what matters."""

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
    """A `Contrast` from a file."""

    src: str
    good: str
    bad: str
    tag: str


@dataclass(frozen=True)
class Accuracy:
    """How many contrasts a model gets right."""

    right: int
    total: int

    @property
    def share(self) -> float:
        """From 0 to 1; chance is 0.5."""
        return self.right / self.total


def contrastive_accuracy(translator: "Translator", contrasts: Sequence[Contrast]) -> dict[str, Accuracy]:
    """By tag, how often log p of the good translation, summed over its tokens, is above the other's. A tie is wrong."""
    sources = [contrast.src for contrast in contrasts]
    good = translator.score(sources, [contrast.good for contrast in contrasts])
    bad = translator.score(sources, [contrast.bad for contrast in contrasts])
    total = Counter(contrast.tag for contrast in contrasts)
    right = Counter(c.tag for c, better, worse in zip(contrasts, good, bad, strict=True) if better > worse)
    return {tag: Accuracy(right[tag], total[tag]) for tag in total}


def read_challenge(path: Path) -> list[ReadContrast]:
    """A challenge set in JSONL: an object with the strings "src", "good", "bad" and "tag" in each line.

    Raises:
        HeedError: naming the line that is none.
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
            contrasts.append(ReadContrast(**{name: _text(fields[name]) for name in ("src", "good", "bad", "tag")}))
        except (ValueError, TypeError, KeyError) as error:
            raise HeedError(
                f'Line {number} of {path} is no contrast: it must be a JSON object with the strings "src", "good", '
                '"bad" and "tag".'
            ) from error
    if not contrasts:
        raise HeedError(f"{path} holds no contrasts.")
    return contrasts


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
