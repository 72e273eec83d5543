"""Detect the language of a text by its characters."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

ORDERS = (1, 2, 3)
"""Lengths of character n-grams."""

MAX_SAMPLES = 5_000
"""Sentences from which a language is learned."""

MAX_EVIDENCE = 40
"""n-grams that count as independent: they overlap, so a long text is no proof."""

SMOOTHING = 0.5
"""Added to the count of every n-gram."""


class Detector:
    """A naive Bayes classifier of character n-grams.

    Args:
        samples: sentences of each language.
    """

    def __init__(self, samples: Mapping[str, Sequence[str]]) -> None:
        self._counts = {
            language: Counter(gram for line in lines[:MAX_SAMPLES] for gram in _ngrams(line))
            for language, lines in samples.items()
            if any(map(str.strip, lines))
        }
        self._totals = {language: counts.total() for language, counts in self._counts.items()}
        self._distinct = len(set().union(*self._counts.values())) + 1

    @property
    def languages(self) -> list[str]:
        """The languages with samples."""
        return list(self._counts)

    def detect(self, text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
        """Return the probability of each language, the likeliest first, if the text is in one of them.

        Args:
            languages: some of the languages with samples. A text without letters is as likely in each.
        """
        grams = list(_ngrams(text))
        evidence = min(len(grams), MAX_EVIDENCE)
        scores = [evidence * self._mean_log_prob(grams, language) for language in languages]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        found = [(language, weight / sum(weights)) for language, weight in zip(languages, weights, strict=True)]
        return sorted(found, key=lambda pair: -pair[1])

    def _mean_log_prob(self, grams: Sequence[str], language: str) -> float:
        if not grams:
            return 0.0
        counts, total = self._counts[language], self._totals[language] + SMOOTHING * self._distinct
        return sum(math.log((counts[gram] + SMOOTHING) / total) for gram in grams) / len(grams)


def _ngrams(text: str) -> Iterator[str]:
    """Yield the n-grams of letters, with a space at the ends of words."""
    words = "".join(char if char.isalpha() else " " for char in text.casefold()).split()
    for word in words:
        marked = f" {word} "
        for order in ORDERS:
            for start in range(len(marked) - order + 1):
                if (gram := marked[start : start + order]) != " ":
                    yield gram
