"""Brevity penalty of BLEU (Papineni et al. 2002, §2.2.2)."""

import math


def brevity_penalty(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """Return BP = min(1, exp(1 − r/c)) of a corpus.

    c is the number of words of all translations, r that of all references. BP is 0 if c is 0.

    Args:
        hypotheses: the words of each translation.
        references: the words of each translation's reference, in the same order.
    """
    c, r = (sum(map(len, sentences)) for sentences in (hypotheses, references))
    return min(1.0, math.exp(1 - r / c)) if c else 0.0
