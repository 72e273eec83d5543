"""The directions of a model: one, or several if language tags in its sources choose the target language."""

from collections.abc import Sequence
from itertools import chain

from heed.data.directions import Direction, language_tag
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError, argument


def choose_direction(tokenizer: Tokenizer, known: Sequence[Direction], name: str) -> Direction:
    """Return the direction with a name.

    A model with language tags can also be asked for a direction in which it was not trained, from one of its languages
    to one of its target languages (zero-shot translation, Johnson et al. 2017, §4.5).

    Args:
        known: the directions in which the model was trained, the one it is used for by default first.
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
    if not any(known[0]):
        has = "this model's languages are unknown"
    elif len(known) == 1:
        has = f"this model has {known[0]} only"
    else:
        has = f"this model has {', '.join(map(str, known[:-1]))} and {known[-1]}"
    raise HeedError(f"{argument('direction', name)} is not a direction of this model: {has}.")
