"""The directions of a model: one, or two for a model trained with ``data.both_directions=true``."""

from typing import NamedTuple

from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError, argument


class Direction(NamedTuple):
    """A source and a target language, "" if unknown."""

    src_lang: str
    tgt_lang: str

    def __str__(self) -> str:
        return f"{self.src_lang}-{self.tgt_lang}"

    def reversed(self) -> "Direction":
        """Return the other direction of the two languages."""
        return Direction(self.tgt_lang, self.src_lang)


def directions(tokenizer: Tokenizer, trained: Direction) -> list[Direction]:
    """Return the directions of a model, the one it is used for by default first.

    Args:
        trained: the languages in the model folder's config.
    """
    return [trained, trained.reversed()] if tokenizer.tags else [trained]


def choose_direction(tokenizer: Tokenizer, trained: Direction, name: str | None) -> tuple[Tokenizer, Direction]:
    """Return the tokenizer of a direction, which marks sources with the direction's tag, and its languages.

    Args:
        trained: the languages in the model folder's config.
        name: for example "de-en"; None for the model's first direction.

    Raises:
        HeedError: if the model does not have this direction.
    """
    if name is None or name == str(trained):
        return tokenizer, trained
    known = directions(tokenizer, trained)
    if name not in map(str, known):
        if not any(trained):
            has = "this model's languages are unknown"
        elif len(known) == 1:
            has = f"this model has {known[0]} only"
        else:
            has = f"this model has {' and '.join(map(str, known))}"
        raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
    return tokenizer.reversed(), trained.reversed()
