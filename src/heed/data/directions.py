"""Directions of translation."""

from typing import NamedTuple

from heed.errors import HeedError

LANGUAGE_TAG = "<2"
"""How the tag of a target language starts: "<2de>"."""


class Direction(NamedTuple):
    """A source and a target language, "" if unknown."""

    src_lang: str
    tgt_lang: str

    def __str__(self) -> str:
        return f"{self.src_lang}-{self.tgt_lang}"

    @property
    def tag(self) -> str:
        """The first token of a source that tells the model the target language (Johnson et al. 2017, §3)."""
        return language_tag(self.tgt_lang)

    def reversed(self) -> "Direction":
        """Return the other direction of the two languages."""
        return Direction(self.tgt_lang, self.src_lang)

    @classmethod
    def parse(cls, name: str, *, where: str = "") -> "Direction":
        """Return the direction with a name such as "en-de".

        Args:
            where: what the name is, for the message.

        Raises:
            HeedError: if it does not name two different languages.
        """
        languages = name.split("-")
        if len(languages) != 2 or not all(languages) or languages[0] == languages[1]:
            raise HeedError(
                f"{where}{name} must be two different language codes with a hyphen between them, such as en-de (a code "
                "of several parts is written with underscores: en-zh_Hant)."
            )
        return cls(*languages)


def language_tag(lang: str) -> str:
    """Return the tag of a target language, see `Direction.tag`."""
    return f"{LANGUAGE_TAG}{lang}>"
