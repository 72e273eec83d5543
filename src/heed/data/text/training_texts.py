"""The training text of a run: one text, or a mixture of several."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from heed.data.text.preparation import PreparedText
from heed.data.text.text import Block, WordCounts
from heed.data.text.workers import Workers
from heed.directions import Direction

Result = TypeVar("Result")
Count = Callable[[list[str]], Mapping[str, int]]


@dataclass(frozen=True)
class TrainingTexts:
    """All training text: one text, or a mixture of several."""

    texts: Sequence[PreparedText]
    temperature: float = 1.0  # a text of n pairs without a weight has the weight n^(1 / temperature)

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
        weights, counts = self.weights, WordCounts()
        with self._workers() as workers:
            for part, weight in zip(self.texts, weights, strict=True):
                share = max(1, round(at_most * weight / sum(weights)))
                for words in part.map_blocks(WordCounts.of, share, workers):
                    counts.update(words)
            (result,) = workers.map([partial(function, counts)])
            return result

    def count_in_sources(self, count: Count) -> Counter[str]:
        """Return the sum of the counts of a function over the sources of all pairs, in all their directions."""
        total = Counter[str]()
        with self._workers() as workers:
            for part in self.texts:
                counting = partial(_count_sources, count, len(part.directions))
                for counts in part.map_blocks(counting, len(part), workers):
                    total.update(counts)
        return total

    def _workers(self) -> Workers:
        return Workers(max(part.preparation.workers_for(part.clean.report.chars) for part in self.texts))


def _count_sources(count: Count, sides: int, block: Block) -> Mapping[str, int]:
    return count([*block.src, *block.tgt][: sides * len(block)])
