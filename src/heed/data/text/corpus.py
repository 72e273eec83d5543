"""A corpus: the training texts, validation sets and test sets of a run, and the options that all corpora share."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from heed.cache import build_once, cache_key
from heed.data.text.clean_pairs import CleanPairs, Preparation, write_clean_pairs
from heed.data.text.cleaning import Cleaning, Rules
from heed.data.text.noise import Noise
from heed.data.text.source import Sentences, Source, WordCounts, source_digests, text_digest
from heed.data.text.workers import Workers
from heed.errors import HeedError
from heed.languages import Direction, Language, is_same_language
from heed.options import AtLeast1, from_plain

Result = TypeVar("Result")
Count = Callable[[list[str]], Mapping[str, int]]


@dataclass(frozen=True)
class Text:
    """A training text in one direction. Two directions are two texts with the same clean pairs."""

    sources: Sequence[Source]
    direction: Direction
    name: str = ""  # in a mixture
    weight: float | None = None  # share of the sentences, relative to the other texts; None: determined by its size
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
            (text.name, text.clean.digest, weight, text.tag)
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
        return self._count((text, partial(_count_sources, count, text.swapped)) for text in self.directed)

    def count_in_pairs(self, count: Callable[[Sentences], Mapping[str, int]]) -> Counter[str]:
        """Return the sum of the counts of a function over all pairs."""
        return self._count((text, count) for text in self.texts)

    def _count(self, counting: Iterable[tuple[Text, Callable[[Sentences], Mapping[str, int]]]]) -> Counter[str]:
        total = Counter[str]()
        with self._workers() as workers:
            for text, count in counting:
                for counts in text.clean.map_blocks(count, len(text.clean), workers):
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


# ---- options


@dataclass(kw_only=True)
class CorpusOptions:
    """The options that all kinds of corpora share. conf/data/common/default.yaml explains them."""

    reverse: bool
    both_directions: bool
    noise: Mapping[str, Any] | None
    max_train: AtLeast1 | None
    max_eval: AtLeast1 | None
    max_eval_tokens: AtLeast1 | None
    cleaning: Cleaning
    preparation: Preparation
    cache_dir: str

    def __post_init__(self) -> None:
        self.default_noise = parse_noise(self.noise)

    def build(
        self,
        name: str,
        train: Sequence[Text],
        valid: Sequence[EvaluationSet],
        tests: Mapping[str, EvaluationSet],
        *,
        temperature: float = 1.0,
    ) -> Corpus:
        """Clean and select the training text, apply ``reverse``, and return the corpus.

        ``train`` are the texts of a mixture, or one text with the name ""; ``valid`` is one set, or one per direction.
        """
        if self.reverse:
            train = [replace(text, direction=text.direction.reversed()) for text in train]
            valid = [part.reversed() for part in valid]
            tests = {name: part.reversed() for name, part in tests.items()}
        codes: dict[Language, str] = {}
        directions = [text.direction for text in train] + [part.direction for part in (*valid, *tests.values())]
        for code in chain.from_iterable(directions):
            if (first := codes.setdefault(Language.parse(code), code)) != code:
                raise HeedError(f"The texts have two codes of one language, {first} and {code}: use one of them.")
        if self.both_directions and (same := [t.direction for t in train if is_same_language(*t.direction)]):
            raise HeedError(
                f"data.both_directions=true needs two different languages, but both are {same[0].src_lang!r}: set "
                "data.src_lang and data.tgt_lang."
            )
        # Compare with whole sets, so that the training text does not depend on `max_eval`.
        texts = self._clean(train, [*valid, *tests.values()])
        corpus = Corpus(
            name,
            TrainingSet(texts, temperature, self.both_directions),
            {"valid" if len(valid) == 1 else f"valid-{part.direction}": part.first(self.max_eval) for part in valid},
            {name: part.first(self.max_eval) for name, part in tests.items()},
            self.max_eval_tokens,
        )
        _check_targets(corpus)
        return corpus

    def _clean(self, texts: Sequence[Text], held_out: Sequence[EvaluationSet]) -> list[Text]:
        """Clean the texts and select their training pairs.

        A pair in several texts is kept in the one with the largest ``weight``, or the first of them.
        """
        cleaned: dict[str, Text] = {}
        for text in sorted(texts, key=lambda text: -(text.weight or 0)):
            directions = [text.direction, text.direction.reversed()][: 1 + self.both_directions]
            leaked = [
                source_digests(sentence for part in held_out for sentence in part.sentences(direction.src_lang))
                for direction in (directions if self.cleaning.drop_leaked else ())
            ]
            found = replace(text, noise=text.noise or self.default_noise).cleaned(
                Rules(self.cleaning, text.min_score, leaked, swapped=self.reverse, at_most=self.max_train),
                preparation=self.preparation,
                cache_dir=Path(self.cache_dir),
                # Equal pairs of different languages ("OK" in German and in French) are not duplicates.
                heavier=[other for other in cleaned.values() if other.direction == text.direction],
            )
            if not len(found.clean):
                where = f" in data.train.{text.name}" if text.name else ""
                report = found.clean.report
                is_leaked = report.dropped.get("leaked", 0) > 0.5 * report.total
                advice = "\nIt is the text of the validation or test sets: give other files for these." * is_leaked
                raise HeedError(
                    f"Cleaning left nothing to train on{where} (the rules are data.cleaning.*).\n{report}{advice}"
                )
            cleaned[text.name] = found
        return [cleaned[text.name] for text in texts]


def parse_noise(given: Mapping[str, Any] | None) -> Noise | None:
    """Return the noise with these arguments, None without any; raise a HeedError if one is unknown or out of range."""
    return None if given is None else from_plain(Noise, given, where="data.noise.")


def _check_targets(corpus: Corpus) -> None:
    """Raise a HeedError if an evaluation set has a target language that no training text has."""
    trained = {direction.tgt_lang for direction in corpus.train.directions}
    for name, part in {**corpus.valid, **corpus.tests}.items():
        if part.direction.tgt_lang not in trained:
            option = f"data.{name.replace('-', '.', 1)}" if name in corpus.valid else f"data.test.{name}"
            raise HeedError(
                f"{option} has the direction {part.direction}, but no training text has the target language "
                f"{part.direction.tgt_lang}: add one with `direction: {part.direction}`, or leave the set out."
            )
