"""The translation directions of a model."""

from collections.abc import Sequence
from itertools import chain

from heed.data.tokenizer import Tokenizer
from heed.directions import Direction, language_tag
from heed.errors import HeedError, argument
from heed.languages import find_language


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
    src_name, _, tgt_name = name.rpartition("-")
    src_lang, tgt_lang = (find_language(code, languages) for code in (src_name, tgt_name))
    same = [direction for direction in known if name in (str(direction), direction.tgt_lang)]
    same += [each for each in known if each.tgt_lang == tgt_lang and (each.src_lang == src_lang or not src_name)]
    if same:
        return same[0]
    if src_lang and tgt_lang and src_lang != tgt_lang and language_tag(tgt_lang) in tokenizer.tags:
        return Direction(src_lang, tgt_lang)
    has = f"it has {', '.join(map(str, known))}" if any(known[0]) else "its languages are unknown"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
