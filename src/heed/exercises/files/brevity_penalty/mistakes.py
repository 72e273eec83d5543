"""Mistakes that the check explains."""

import math


def mean_of_sentences(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """This is the mean of one penalty per sentence. BLEU sums the lengths over the corpus, and has one penalty."""
    pairs = zip(hypotheses, references, strict=True)
    penalties = [min(1.0, math.exp(1 - len(r) / len(c))) if c else 0.0 for c, r in pairs]
    return sum(penalties) / len(penalties)


def inverted(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """The fraction is c/r, which punishes long translations. It must be r/c, which punishes short ones."""
    c, r = (sum(map(len, sentences)) for sentences in (hypotheses, references))
    return min(1.0, math.exp(1 - c / r)) if c else 0.0


def above_one(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """The penalty is above 1 for long translations. They are not rewarded: n-gram precision punishes them already."""
    c, r = (sum(map(len, sentences)) for sentences in (hypotheses, references))
    return math.exp(1 - r / c) if c else 0.0
