"""Languages: their English names, and the translation directions of a model."""

import tomllib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from heed.data.tokenizer import Tokenizer
from heed.directions import Direction, language_tag
from heed.errors import HeedError, argument

NAMES: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""English names by ISO 639 code."""


def language_name(code: str) -> str:
    """Return the English name of a language, with its region if it has one; the code itself if it is unknown."""
    base, separator, region = code.replace("_", "-").partition("-")
    name = NAMES.get(base.lower())
    if name is None:
        return code
    return f"{name} ({region})" if separator else name


def choose_direction(tokenizer: Tokenizer, known: Sequence[Direction], name: str) -> Direction:
    """Return the direction with a name.

    A model with language tags also accepts untrained directions from one of its languages to one of its target
    languages (zero-shot translation, Johnson et al. 2017, §4.5).

    Args:
        known: the directions in which the model was trained, the default direction first.
        name: for example "de-en", or only the target language, "en".

    Raises:
        HeedError: if the model does not have this direction.
    """
    for direction in known:
        if name in (str(direction), direction.tgt_lang):
            return direction
    src_lang, _, tgt_lang = name.partition("-")
    languages = chain.from_iterable(known)
    if src_lang != tgt_lang and src_lang in languages and language_tag(tgt_lang) in tokenizer.tags:
        return Direction(src_lang, tgt_lang)
    has = f"it has {', '.join(map(str, known))}" if any(known[0]) else "its languages are unknown"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
