"""Placeholders in training text, so that a model learns to copy them: `heed.inference.protection` uses them.

They stand for protected spans that both sides of a pair share. Few corpora have such spans. Names and numbers that both
sides share are found in most, and become placeholders in a part of the pairs (compare Luong et al. 2015, "Addressing
the rare word problem").
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from heed.characters import MAY_BE_PROTECTED, PROTECTED
from heed.data.text.source import Digests, Sentences
from heed.symbols import PLACEHOLDERS

MIN_PAIRS = 100
"""The fewest pairs with a shared span or word from which a model learns placeholders."""
ONE_IN = 3
"""Of the pairs with shared words, one in this many has placeholders; of those with shared spans, one has none."""
MOST = 3
"""The most words of a pair that become placeholders."""
MASKING_REVISION = 1
"""Part of the key of encoded pairs. Raise it with every change of what `with_placeholders` returns."""
TOKEN = re.compile(rf"{PROTECTED.pattern}|[^\W_]+(?:['’.:,-][^\W_]+)*", re.VERBOSE)
"""A span, or a word without the punctuation around it."""


def count_sharing_spans(block: Sentences) -> Mapping[str, int]:
    """Return how many pairs of a block have a protected span that they share."""
    pairs = zip(block.src, block.tgt, strict=True)
    return {"pairs": sum(all(map(MAY_BE_PROTECTED.search, pair)) and bool(shared(*pair)[0]) for pair in pairs)}


def count_sharing(block: Sentences) -> Mapping[str, int]:
    """Return how many pairs of a block have a span or a word that they share."""
    return {"pairs": sum(any(shared(*pair)) for pair in zip(block.src, block.tgt, strict=True))}


def with_placeholders(block: Sentences, digests: Digests) -> Sentences:
    """Return pairs with placeholders for the spans that most of them share, and for the shared words of some.

    What becomes a placeholder depends on the pair and its digest alone.
    """
    src, tgt = block.src.copy(), block.tgt.copy()
    for row, digest in enumerate(digests.tolist()):
        spans, words = shared(src[row], tgt[row])
        # The spans of one in three pairs stay, so that a model can read them without protection.
        kept = digest % ONE_IN == 1
        chosen = [*(() if kept else spans[: len(PLACEHOLDERS) - MOST]), *(() if digest % ONE_IN else words[:MOST])]
        first = digest // ONE_IN
        placeholders = {token: PLACEHOLDERS[number % len(PLACEHOLDERS)] for number, token in enumerate(chosen, first)}
        if placeholders:
            src[row], tgt[row] = (_replaced(side[row], placeholders) for side in (src, tgt))
    return Sentences(src, tgt)


def shared(src: str, tgt: str) -> tuple[list[str], list[str]]:
    """Return the spans, and the names and numbers, that occur once in each sentence.

    A name is a word with an upper-case letter.
    """
    counts = [Counter(TOKEN.findall(side)) for side in (src, tgt)]
    once = [token for token in counts[0] if all(each[token] == 1 for each in counts)]
    spans = [token for token in once if PROTECTED.fullmatch(token)]
    names = [token for token in once if token != token.lower() or any(map(str.isdigit, token))]
    return spans, [name for name in names if name not in spans]


def _replaced(sentence: str, placeholders: Mapping[str, str]) -> str:
    found = [match for match in TOKEN.finditer(sentence) if match[0] in placeholders]
    return replaced(sentence, found, [placeholders[match[0]] for match in found])[0]


def replaced(
    sentence: str, found: Sequence[re.Match[str]], placeholders: Sequence[str]
) -> tuple[str, frozenset[tuple[str, bool]]]:
    """Return a sentence with placeholders for some matches, and spaces between them and what touches them.

    Models know words, and placeholders between them. A point after a variable stays where it is: it belongs to the
    sentence. Where ``<br>`` stands between two sentences, or touches a letter, it gets spaces.

    Returns:
        The text, and the added spaces: the placeholder, and whether the space is after it.
    """
    starts = {match.start() for match in found}
    text, end, added = "", 0, set[tuple[str, bool]]()
    for placeholder, match in zip(placeholders, found, strict=True):
        text += sentence[end : match.start()]
        before, after = sentence[: match.start()][-1:], sentence[match.end() :][:1]
        follows, precedes = bool(end) and end == match.start(), match.end() in starts
        if follows or before.isalnum() or (after.isalnum() and not precedes):
            sides = {(placeholder, False): before, (placeholder, True): "" if precedes else after}
            added |= {side for side, char in sides.items() if char.strip()}
        text += " " * ((placeholder, False) in added) + placeholder + " " * ((placeholder, True) in added)
        end = match.end()
    return text + sentence[end:], frozenset(added)
