"""The training text of a run: one text, or a mixture of several."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from heed.data.preparation.prepared_text import PreparedText
from heed.data.preparation.workers import Workers
from heed.data.text import WordCounts
from heed.directions import Direction

Result = TypeVar("Result")


@dataclass(frozen=True)
class TrainingTexts:
    """All training text: one text, or a mixture of several.

    Args:
        temperature: a text of n pairs without a weight has the weight n^(1 / temperature).
    """

    texts: Sequence[PreparedText]
    temperature: float = 1.0

    @property
    def is_mixture(self) -> bool:
        """Whether these are the named texts of a mixture, even if there is only one."""
        return any(part.text.name for part in self.texts)

    @property
    def weights(self) -> list[float]:
        """The share of each text in the sentences, relative to the others."""
        return [
            float(len(part)) ** (1 / self.temperature) if part.text.weight is None else part.text.weight
            for part in self.texts
        ]

    def __len__(self) -> int:
        return sum(map(len, self.texts))

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of all texts."""
        return tuple(dict.fromkeys(direction for part in self.texts for direction in part.directions))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the texts."""
        return tuple(dict.fromkeys(part.text.tag for part in self.texts if part.text.tag is not None))

    @property
    def digest(self) -> str:
        """Digest of the selected pairs. For a mixture, the digest of its texts and their weights."""
        if not self.is_mixture:
            return self.texts[0].clean.digest
        mixed = [
            (part.text.name, part.clean.digest, weight, part.text.from_step, part.text.tag)
            for part, weight in zip(self.texts, self.weights, strict=True)
        ]
        return hashlib.blake2b(repr(mixed).encode(), digest_size=16).hexdigest()

    def describe_cleaning(self) -> str:
        """Return a report of what the cleaning rules dropped from each text."""
        return "\n".join(f"{part.text.name}: {part.clean.report}".removeprefix(": ") for part in self.texts)

    def call_with_words(self, function: Callable[[WordCounts], Result], at_most: int) -> Result:
        """Apply a function to the word counts of a sample of about ``at_most`` pairs, and return its result.

        A mixture is sampled in proportion to the weights. For a large text the function runs in a worker process, so
        that its memory is freed.
        """
        counts = WordCounts()
        with self._workers() as workers:
            for part, weight in zip(self.texts, self.weights, strict=True):
                counts.update(part.count_words(max(1, round(at_most * weight / sum(self.weights))), workers))
            (result,) = workers.map([partial(function, counts)])
            return result

    def count_sources(self, at_most: int) -> tuple[Counter[str], int]:
        """Count the words in the sources of a sample of about ``at_most`` pairs, in all their directions.

        Returns:
            The counts of the words, separated by spaces and tabs, and the number of pairs. Each text has the share of
            the sample that it has of all pairs.
        """
        counts, pairs = Counter[str](), 0
        with self._workers() as workers:
            for part in self.texts:
                words = part.count_words(max(1, round(at_most * len(part) / len(self))), workers)
                pairs += words.pairs
                for side in (words.src, words.tgt)[: len(part.directions)]:
                    counts.update(side)
        return counts, pairs

    def _workers(self) -> Workers:
        return Workers(max(part.preparation.workers_for(part.clean.report.chars) for part in self.texts))
