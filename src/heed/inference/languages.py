"""The translation directions of a model."""

import re
from collections.abc import Sequence
from itertools import chain

from heed.data.pairs.tokenizer import Tokenizer
from heed.errors import HeedError, argument
from heed.languages import Direction, find_language

REGIONAL = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-[A-Z]{2})?")
"""One code with hyphens, such as zh-Hant-TW. The case of the letters tells it from a pair such as de-en."""


def choose_direction(tokenizer: Tokenizer, known: Sequence[Direction], name: str) -> Direction:
    """Return the direction with a name.

    A model with language tags also accepts untrained directions from one of its languages to one of its target
    languages (zero-shot translation, Johnson et al. 2017, §4.5).

    Args:
        known: the directions in which the model was trained, the default direction first.
        name: for example "de-en", or only the target language, "en", by any of their codes (`heed.languages`).

    Raises:
        HeedError: if the model does not have this direction.
    """
    languages = list(chain.from_iterable(known))
    splits = [(name[: hyphen.start()], name[hyphen.end() :]) for hyphen in re.finditer("-", name)]
    codes = [(find_language(src, languages), find_language(tgt, languages)) for src, tgt in splits]
    pairs = [Direction(src, tgt) for src, tgt in codes if src and tgt and src != tgt]
    found = [each for each in known if name in (str(each), each.tgt_lang)]
    found += [each for each in known if each in pairs]
    found += [each for each in pairs if each.tag in tokenizer.tags]
    if not pairs and (not splits or REGIONAL.fullmatch(name)):
        found += [each for each in known if each.tgt_lang == find_language(name, languages)]
    if found:
        return found[0]
    has = f"it has {', '.join(map(str, known))}" if any(known[0]) else "its languages are unknown"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
