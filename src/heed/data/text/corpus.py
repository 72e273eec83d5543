"""A corpus: the training texts, the validation sets and the test sets of a run."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from heed.cache import build_once, cache_key
from heed.data.text.clean_pairs import CleanPairs, Preparation, write_clean_pairs
from heed.data.text.cleaning import Rules
from heed.data.text.digests import text_digest
from heed.data.text.noise import Noise
from heed.data.text.source import Sentences, Source, WordCounts
from heed.data.text.workers import Workers
from heed.directions import Direction
from heed.errors import HeedError

Result = TypeVar("Result")
Count = Callable[[list[str]], Mapping[str, int]]


@dataclass(frozen=True)
class Text:
    """A training text in one direction. Two directions are two texts with the same clean pairs."""

    sources: Sequence[Source]
    direction: Direction
    name: str = ""  # in a mixture
    weight: float | None = None  # share of the sentences, relative to the other texts; None: determined by its size
    from_step: int = 0  # first optimizer step that may use it
    tag: str | None = None  # first token of its source sentences, such as "<crawl>" (Caswell et al. 2019)
    noise: Noise | None = None  # in its source sentences
    min_score: float | None = None  # pairs with a lower score are dropped
    selected: CleanPairs | None = None  # None before cleaning
    swapped: bool = False  # whether source and target of the clean pairs are swapped

    @property
    def clean(self) -> CleanPairs:
        """The pairs that cleaning keeps, in the direction that was cleaned."""
        assert self.selected is not None, "the text is not cleaned"
        return self.selected

    def reversed(self) -> "Text":
        """Return the text with source and target swapped. It has the same clean pairs."""
        return replace(self, direction=self.direction.reversed(), swapped=not self.swapped)

    def read(self, number: int) -> Sentences:
        """Return the clean pairs of a block."""
        block, _ = self.clean.read(number)
        return block.swapped() if self.swapped else block

    def cleaned(
        self, rules: Rules, *, preparation: Preparation, cache_dir: Path, heavier: Sequence["Text"] = ()
    ) -> "Text":
        """Return the text with its clean pairs, which are read and selected unless they are in the cache.

        A pair that occurs in a ``heavier`` text of the mixture is dropped: one with a larger weight, or an equal weight
        and an earlier place. Raise a HeedError if the text is invalid, or changes while it is read.
        """
        identity = [source.identity() for source in self.sources]
        leaked = [digests.tobytes() for digests in rules.held_out]
        others = [other.clean for other in heavier if rules.cleaning.drop_duplicates]
        key = cache_key(identity, replace(rules, held_out=()), leaked, [other.folder.name for other in others])

        def build(folder: Path) -> None:
            try:
                with Workers(preparation.workers_for(sum(source.size for source in self.sources))) as workers:
                    write_clean_pairs(folder, self.sources, rules, workers, others)
            finally:
                for source, before in zip(self.sources, identity, strict=True):
                    if source.identity() != before:
                        raise HeedError(f"{source.name} changed while it was read: start again when it is complete.")

        folder = build_once(cache_dir / "text" / key, build, wait_minutes=preparation.wait_minutes)
        return replace(self, selected=CleanPairs(folder, rules, preparation))


class EvaluationSet(NamedTuple):
    """A validation or test set."""

    text: Sentences
    direction: Direction

    def reversed(self) -> "EvaluationSet":
        """Return the set with source and target swapped.

        Gold alignments are swapped too. Antecedents and roles are dropped, because they are positions in the old
        source.
        """
        metas = [json.loads(meta) for meta in self.text.meta or ()]
        for meta in metas:
            meta["alignment"] = sorted([tgt, src] for src, tgt in meta["alignment"])
            meta |= {"antecedent": None, "roles": {}}
        swapped = self.text.meta and [json.dumps(meta, ensure_ascii=False) for meta in metas]
        return EvaluationSet(Sentences(self.text.tgt, self.text.src, swapped), self.direction.reversed())

    def first(self, pairs: int | None) -> "EvaluationSet":
        """Return the set of the first ``pairs`` pairs; None: all."""
        src, tgt, meta = self.text.src, self.text.tgt, self.text.meta
        return self._replace(text=Sentences(src[:pairs], tgt[:pairs], meta and meta[:pairs]))

    def sentences(self, lang: str) -> list[str]:
        """Return the sentences in a language, an empty list if it is neither source nor target."""
        return {self.direction.tgt_lang: self.text.tgt, self.direction.src_lang: self.text.src}.get(lang, [])


@dataclass(frozen=True)
class TrainingSet:
    """All training text: one text, or a mixture of several."""

    texts: Sequence[Text]  # in their own direction
    temperature: float = 1.0  # a text of n pairs without a weight has the weight n^(1 / temperature)
    both_directions: bool = False

    @property
    def is_mixture(self) -> bool:
        """Whether these are the named texts of a mixture, even if there is only one."""
        return any(text.name for text in self.texts)

    @property
    def weights(self) -> list[float]:
        """The share of each text in the sentences, relative to the others."""
        return [
            float(len(text.clean)) ** (1 / self.temperature) if text.weight is None else text.weight
            for text in self.texts
        ]

    @cached_property
    def directed(self) -> list[Text]:
        """The texts with their weights. With two directions, each is followed by itself in the other direction.

        The weight of a text is split between its directions.
        """
        sides = 1 + self.both_directions
        weighted = [replace(text, weight=w / sides) for text, w in zip(self.texts, self.weights, strict=True)]
        return [side for text in weighted for side in (text, text.reversed())[:sides]]

    def __len__(self) -> int:
        return sum(len(text.clean) for text in self.texts)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of all texts."""
        return tuple(dict.fromkeys(text.direction for text in self.directed))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the texts."""
        return tuple(dict.fromkeys(text.tag for text in self.texts if text.tag is not None))

    @property
    def digest(self) -> str:
        """Digest of the selected pairs. For a mixture, the digest of its texts and their weights."""
        if not self.is_mixture:
            return self.texts[0].clean.digest
        mixed = [
            (text.name, text.clean.digest, weight, text.from_step, text.tag)
            for text, weight in zip(self.texts, self.weights, strict=True)
        ]
        return hashlib.blake2b(repr(mixed).encode(), digest_size=16).hexdigest()

    def describe_cleaning(self) -> str:
        """Return a report of what the cleaning rules dropped from each text."""
        return "\n".join(f"{text.name}: {text.clean.report}".removeprefix(": ") for text in self.texts)

    def call_with_words(self, function: Callable[[WordCounts], Result], at_most: int) -> Result:
        """Apply a function to the word counts of a sample of about ``at_most`` pairs, and return its result.

        A mixture is sampled in proportion to the weights. For a large text the function runs in a worker process, so
        that its memory is freed.
        """
        weights, counts = self.weights, WordCounts()
        with self._workers() as workers:
            for text, weight in zip(self.texts, weights, strict=True):
                share = max(1, round(at_most * weight / sum(weights)))
                for words in text.clean.map_blocks(WordCounts.of, share, workers):
                    counts.update(words)
            (result,) = workers.map([partial(function, counts)])
            return result

    def count_in_sources(self, count: Count) -> Counter[str]:
        """Return the sum of the counts of a function over the sources of all pairs, in all their directions."""
        total = Counter[str]()
        with self._workers() as workers:
            for text in self.directed:
                counting = partial(_count_sources, count, text.swapped)
                for counts in text.clean.map_blocks(counting, len(text.clean), workers):
                    total.update(counts)
        return total

    def _workers(self) -> Workers:
        return max((text.clean for text in self.texts), key=lambda clean: clean.report.chars).workers()


def _count_sources(count: Count, swapped: bool, block: Sentences) -> Mapping[str, int]:
    return count(block.tgt if swapped else block.src)


@dataclass(frozen=True)
class Corpus:
    """Parallel text. ``train`` is cleaned; ``valid`` and ``tests`` are as published."""

    name: str
    train: TrainingSet
    valid: dict[str, EvaluationSet]  # "valid", or one for each of several directions, such as "valid-en-de"
    tests: dict[str, EvaluationSet]
    max_eval_tokens: int | None  # of either side of a validation or test sentence; None: no limit

    @property
    def directions(self) -> tuple[Direction, ...]:
        """All directions of validation and training; the first validation set's direction comes first."""
        return tuple(dict.fromkeys((*(part.direction for part in self.valid.values()), *self.train.directions)))

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the training, validation and test text, by option name."""
        valid, tests = (text_digest(*(part.text for part in sets.values())) for sets in (self.valid, self.tests))
        return {"data.train": self.train.digest, "data.valid": valid, "data.test": tests}

    @property
    def digest(self) -> str:
        """Digest of all text after cleaning, the same on every machine."""
        held_out = text_digest(*(part.text for part in (*self.valid.values(), *self.tests.values())))
        return hashlib.blake2b(f"{self.train.digest} {held_out}".encode(), digest_size=16).hexdigest()

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags, starting with the first direction's; empty with a single target language."""
        tags = tuple(dict.fromkeys(direction.tag for direction in self.directions))
        return tags if len(tags) > 1 else ()
