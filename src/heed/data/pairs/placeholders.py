"""Placeholders in training text, so that a model learns to copy them: `heed.inference.protection` uses them.

Few corpora have markup or addresses. Names and numbers that both sides of a pair share are found in most, and are
replaced by placeholders in a part of the pairs (compare Luong et al. 2015, "Addressing the rare word problem").
"""

import re
from collections import Counter
from collections.abc import Mapping

from heed.data.text.source import Digests, Sentences
from heed.symbols import PLACEHOLDERS

MIN_PAIRS = 100
"""The fewest pairs with a shared word from which a model learns placeholders."""
ONE_IN = 3
"""Of the pairs with shared words, one in this many has placeholders."""
MOST = 3
"""Placeholders of a pair."""
BARE_WORD = re.compile(r"[^\W_](?:[^\s]*[^\W_])?")
"""A word without the punctuation around it."""


def count_sharing(block: Sentences) -> Mapping[str, int]:
    """Return how many pairs of a block have a shared word."""
    return {"pairs": sum(bool(shared_words(*pair)) for pair in zip(block.src, block.tgt, strict=True))}


def with_placeholders(block: Sentences, digests: Digests) -> Sentences:
    """Return pairs with placeholders for shared words of some of them, as a function of each pair's digest alone."""
    src, tgt = block.src.copy(), block.tgt.copy()
    for row, digest in enumerate(digests.tolist()):
        words = () if digest % ONE_IN else shared_words(src[row], tgt[row])[:MOST]
        for number, word in enumerate(words, digest // ONE_IN):
            placeholder = PLACEHOLDERS[number % len(PLACEHOLDERS)]
            src[row], tgt[row] = (_replaced(side[row], word, placeholder) for side in (src, tgt))
    return Sentences(src, tgt)


def shared_words(src: str, tgt: str) -> list[str]:
    """Return the names and numbers that occur once in each sentence: words with an upper-case letter or a digit."""
    counts = [Counter(BARE_WORD.findall(side)) for side in (src, tgt)]
    return [word for word in counts[0] if all(each[word] == 1 for each in counts) and _is_name(word)]


def _is_name(word: str) -> bool:
    return word != word.lower() or any(map(str.isdigit, word))


def _replaced(sentence: str, word: str, placeholder: str) -> str:
    return BARE_WORD.sub(lambda match: placeholder if match[0] == word else match[0], sentence)
