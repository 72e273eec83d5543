"""Translation directions: pairs of a source and a target language."""

from typing import NamedTuple

from heed.errors import HeedError
from heed.languages import is_same_language

LANGUAGE_TAG = "<2"
"""Prefix of language tags, such as "<2de>"."""


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
