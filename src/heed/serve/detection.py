"""Detect the language of a text by its characters."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

ORDERS = (1, 2, 3)
"""Lengths of character n-grams."""

MAX_SAMPLES = 5_000
"""Largest number of sentences per language to learn from."""

MAX_EVIDENCE = 40
"""Largest number of n-grams that count as independent evidence, because they overlap."""

SMOOTHING = 0.5
"""Added to the count of every n-gram."""


class Detector:
    """A naive Bayes classifier of character n-grams, learned from ``samples``: sentences of each language."""

    def __init__(self, samples: Mapping[str, Sequence[str]]) -> None:
        self.counts = {
            language: Counter(gram for line in lines[:MAX_SAMPLES] for gram in _ngrams(line))
            for language, lines in samples.items()
            if any(map(str.strip, lines))
        }
        """Count of each n-gram, by language."""
        unseen = SMOOTHING * (len(set().union(*self.counts.values())) + 1)
        self._totals = {language: counts.total() + unseen for language, counts in self.counts.items()}

    def detect(self, text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
        """Return the probability of each language, the likeliest first, given that the text is in one of them.

        Args:
            languages: some of the languages with samples. A text without letters is equally likely in all.
        """
        grams = list(_ngrams(text))
        weight = min(1.0, MAX_EVIDENCE / max(1, len(grams)))

        def score(language: str) -> float:
            counts, total = self.counts[language], self._totals[language]
            return weight * sum(math.log((counts[gram] + SMOOTHING) / total) for gram in grams)

        scores = {language: score(language) for language in languages}
        likelihoods = {language: math.exp(value - max(scores.values())) for language, value in scores.items()}
        total = sum(likelihoods.values())
        return sorted(((language, value / total) for language, value in likelihoods.items()), key=lambda pair: -pair[1])


def _ngrams(text: str) -> Iterator[str]:
    """Yield the n-grams of letters, with a space at both ends of a word."""
    words = "".join(char if char.isalpha() else " " for char in text.casefold()).split()
    for word in words:
        marked = f" {word} "
        for order in ORDERS:
            for start in range(len(marked) - order + 1):
                if (gram := marked[start : start + order]) != " ":
                    yield gram
