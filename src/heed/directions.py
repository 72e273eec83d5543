"""Translation directions: pairs of a source and a target language."""

import re
from collections.abc import Container, Sequence
from itertools import chain
from typing import NamedTuple

from heed.errors import HeedError, argument
from heed.languages import find_language, is_same_language

LANGUAGE_TAG = "<2"
"""Prefix of language tags, such as "<2de>"."""

REGIONAL = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-[A-Z]{2})?")
"""One code with hyphens, such as zh-Hant-TW. The case of the letters tells it from a pair such as de-en."""


class Direction(NamedTuple):
    """A source and a target language, "" if unknown."""

    src_lang: str
    tgt_lang: str

    def __str__(self) -> str:
        return f"{self.src_lang}-{self.tgt_lang}"

    @property
    def tag(self) -> str:
        """The token at the start of a source that selects the target language (Johnson et al. 2017, §3)."""
        return language_tag(self.tgt_lang)

    def reversed(self) -> "Direction":
        """Return the direction from the target to the source language."""
        return Direction(self.tgt_lang, self.src_lang)

    @classmethod
    def parse(cls, name: str, *, where: str = "") -> "Direction":
        """Parse a name such as "en-de", or raise a HeedError that starts with ``where``."""
        languages = name.split("-")
        if len(languages) != 2 or not all(languages) or is_same_language(*languages):
            raise HeedError(
                f"{where}{name} must be two different language codes with a hyphen between them, such as en-de (a code "
                "of several parts is written with underscores: en-zh_Hant)."
            )
        return cls(*languages)


def language_tag(lang: str) -> str:
    """Return the tag of a target language, see `Direction.tag`."""
    return f"{LANGUAGE_TAG}{lang}>"


def choose_direction(name: str, known: Sequence[Direction], *, tags: Container[str]) -> Direction:
    """Return the direction of a model with a name.

    A model with language tags also accepts untrained directions from one of its languages to one of its target
    languages (zero-shot translation, Johnson et al. 2017, §4.5).

    Args:
        name: for example "de-en", or only the target language, "en", by any of their codes (`heed.languages`).
        known: the directions in which the model was trained, the default direction first.
        tags: the language tags of the model.

    Raises:
        HeedError: if the model does not have this direction.
    """
    languages = list(chain.from_iterable(known))
    splits = [(name[: hyphen.start()], name[hyphen.end() :]) for hyphen in re.finditer("-", name)]
    codes = [(find_language(src, languages), find_language(tgt, languages)) for src, tgt in splits]
    pairs = [Direction(src, tgt) for src, tgt in codes if src and tgt and src != tgt]
    found = [each for each in known if name in (str(each), each.tgt_lang)]
    found += [each for each in known if each in pairs]
    found += [each for each in pairs if each.tag in tags]
    if not pairs and (not splits or REGIONAL.fullmatch(name)):
        found += [each for each in known if each.tgt_lang == find_language(name, languages)]
    if found:
        return found[0]
    has = f"it has {', '.join(map(str, known))}" if any(known[0]) else "its languages are unknown"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
