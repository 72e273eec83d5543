"""Corpora: the built-in one, the user's files, or a corpus of the Hugging Face hub, loaded and cleaned.

Each class belongs to a file of ``conf/data``; its ``load()`` returns a `Corpus`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from annotated_types import Interval

from heed.data.cleaning import Cleaning, CleaningReport
from heed.data.digests import source_digests, text_fingerprint
from heed.data.directions import Direction
from heed.data.formats.entries import (
    Entry,
    FileEntry,
    find_sources,
    guess_language_from_script,
    guess_languages_from_names,
    name_test_sets,
    parse_entries,
)
from heed.data.formats.fields import Fields
from heed.data.formats.hub import DatasetSource, load_split
from heed.data.formats.inputs import TextFiles
from heed.data.noise import Noise
from heed.data.preparation.corpus import Preparation, TrainingCorpus, TrainingText, TrainingTexts
from heed.data.text import ParallelText, Source, TextInMemory
from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, Positive, find_problems, raise_problems, validated


class EvaluationSet(NamedTuple):
    """A validation or test set."""

    text: ParallelText
    direction: Direction

    def reversed(self) -> "EvaluationSet":
        """Return the set with source and target swapped."""
        return EvaluationSet(_swap_sides(self.text), self.direction.reversed())

    def from_language(self, lang: str) -> ParallelText | None:
        """Return the text with the sentences of a language as sources; None if it is in other languages."""
        if self.direction.src_lang == lang:
            return self.text
        return _swap_sides(self.text) if self.direction.tgt_lang == lang else None


@dataclass(frozen=True)
class Corpus:
    """Parallel text. ``train`` is cleaned; ``valid`` and ``tests`` are as published."""

    name: str
    train: TrainingTexts
    valid: dict[str, EvaluationSet]
    """The validation set "valid"; or for several directions one for each, such as "valid-en-de"."""
    tests: dict[str, EvaluationSet]
    """Test sets by name."""
    max_eval_tokens: int | None
    """Largest accepted length of a validation or test sentence, in tokens of either side; None: no limit."""

    @property
    def src_lang(self) -> str:
        """The source language of the first direction."""
        return self.directions[0].src_lang

    @property
    def tgt_lang(self) -> str:
        """The target language of the first direction."""
        return self.directions[0].tgt_lang

    @property
    def directions(self) -> tuple[Direction, ...]:
        """All directions of training and validation. That of the first validation set is the first."""
        return tuple(dict.fromkeys((*(part.direction for part in self.valid.values()), *self.train.directions)))

    @property
    def fingerprint(self) -> str:
        """Digest of all text after cleaning; independent of the machine."""
        held_out = text_fingerprint(*(part.text for part in (*self.valid.values(), *self.tests.values())))
        return hashlib.blake2b(f"{self.train.fingerprint} {held_out}".encode(), digest_size=16).hexdigest()

    @property
    def cleaning(self) -> CleaningReport:
        """What the cleaning rules dropped."""
        return self.train.report

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags, that of the first direction first; empty if there is one target language."""
        tags = tuple(dict.fromkeys(direction.tag for direction in self.directions))
        return tags if len(tags) > 1 else ()

    @property
    def all_tags(self) -> tuple[str, ...]:
        """The language tags and those of the training texts."""
        return self.tags + self.train.tags


@dataclass(frozen=True)
class _Assembly:
    """The options that all kinds of corpora share, and the steps: reversal, cleaning and selection."""

    reverse: bool
    both_directions: bool
    max_train: int | None
    max_eval_tokens: int | None
    cleaning: Cleaning
    preparation: Preparation
    cache_dir: Path
    noise: Noise | None
    min_score: float | None = None
    temperature: float = 1.0

    def assemble(
        self,
        name: str,
        train: Sequence["MixtureEntry"],
        valid: dict[str, EvaluationSet],
        tests: dict[str, EvaluationSet],
    ) -> Corpus:
        """Return the corpus.

        Args:
            train: the texts of a mixture, or one with the name "".
            valid, tests: sets by name.
        """
        if self.reverse:
            train = [replace(entry, direction=entry.direction.reversed()) for entry in train]
            valid = name_validation_sets([part.reversed() for part in valid.values()])
            tests = {split: part.reversed() for split, part in tests.items()}
        if self.both_directions and (same := [e.direction for e in train if len(set(e.direction)) == 1]):
            raise HeedError(
                f"data.both_directions=true needs two different languages, but both are {same[0].src_lang!r}: set "
                "data.src_lang and data.tgt_lang."
            )
        held_out = [*valid.values(), *tests.values()]
        corpus = Corpus(name, self._mix(train, held_out), valid, tests, self.max_eval_tokens)
        _check_targets(corpus)
        return corpus

    def _mix(self, entries: Sequence["MixtureEntry"], held_out: Sequence[EvaluationSet]) -> TrainingTexts:
        """Return a mixture. Of duplicates across its texts, the heaviest text keeps its own."""
        selected: dict[str, TrainingText] = {}
        for entry in sorted(entries, key=lambda entry: -(entry.weight or 0)):
            # Equal pairs of other languages ("OK" is "OK" in German and in French) are no duplicates.
            heavier = [selected[e.name] for e in entries if e.name in selected and e.direction == entry.direction]
            selected[entry.name] = self._select(entry, held_out, heavier=heavier)
        corpora = []
        for entry in entries:
            text, direction = selected[entry.name], entry.direction
            directions = (direction, direction.reversed()) if self.both_directions else (direction,)
            weight = float(len(text)) ** (1 / self.temperature) if entry.weight is None else entry.weight
            noise = entry.noise or self.noise
            corpora.append(TrainingCorpus(entry.name, text, directions, weight, entry.from_step, entry.tag, noise))
        return TrainingTexts(corpora)

    def _select(
        self, entry: "MixtureEntry", held_out: Sequence[EvaluationSet], *, heavier: Sequence[TrainingText]
    ) -> TrainingText:
        languages = entry.direction if self.both_directions else (entry.direction.src_lang,)
        texts = [[part.from_language(language) for part in held_out] for language in languages]
        text = TrainingText(
            entry.sources,
            held_out=[source_digests(filter(None, found)) for found in texts],
            cleaning=self.cleaning,
            min_score=self.min_score,
            at_most=self.max_train,
            swapped=self.reverse,
            preparation=self.preparation,
            cache_dir=self.cache_dir,
            heavier=heavier,
        )
        if not len(text):
            where = f" in data.train.{entry.name}" if entry.name else ""
            raise HeedError(f"Cleaning left nothing to train on{where} (the rules are data.cleaning.*).\n{text.report}")
        return text


@dataclass(frozen=True)
class MixtureEntry:
    """A text of a mixture.

    Args:
        name: its name; "" if there is no other text.
        sources: its inputs.
        direction: its languages.
        weight: its share of the sentences, relative to the other texts; None: decided by its size.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources; None: no tag.
        noise: of its sources; None: that of the corpus.
    """

    name: str
    sources: Sequence[Source]
    direction: Direction
    weight: float | None = None
    from_step: int = 0
    tag: str | None = None
    noise: Noise | None = None


def name_validation_sets(sets: Sequence[EvaluationSet]) -> dict[str, EvaluationSet]:
    """Return validation sets by name: "valid", or of several directions "valid-en-de" and so on."""
    return {"valid" if len(sets) == 1 else f"valid-{part.direction}": part for part in sets}


def _check_targets(corpus: Corpus) -> None:
    """Raise a HeedError if an evaluation set has a target language that no training text has."""
    trained = {direction.tgt_lang for direction in corpus.train.directions}
    for name, part in {**corpus.valid, **corpus.tests}.items():
        if part.direction.tgt_lang not in trained:
            option = f"data.{name.replace('-', '.', 1)}" if name in corpus.valid else f"data.test.{name}"
            raise HeedError(
                f"{option} is a set of {part.direction}, but no training text has the target language "
                f"{part.direction.tgt_lang}: add one, with `direction: {part.direction}`, or leave the set out."
            )


def _swap_sides(text: ParallelText) -> ParallelText:
    """Return the text with source and target swapped.

    Gold alignments are swapped too. Antecedents and roles are dropped, because they are positions in the old source.
    """
    if text.meta is None:
        return ParallelText(text.tgt, text.src)
    metas = [json.loads(meta) for meta in text.meta]
    for meta in metas:
        meta["alignment"] = sorted([tgt, src] for src, tgt in meta["alignment"])
        meta.update({key: empty for key, empty in (("antecedent", None), ("roles", {})) if key in meta})
    return ParallelText(text.tgt, text.src, [json.dumps(meta, ensure_ascii=False) for meta in metas])


@validated("data.")
class SyntheticCorpus:
    """The built-in English-German corpus, with gold alignments and phenomenon tags in "meta".

    Args:
        seed: random seed of `heed.data.synthetic.generate`.
        train, valid, test, long: pairs per split.
        src_lang, tgt_lang: "en" and "de", or "de" and "en".
        reverse: swap source and target.
        both_directions, noise, max_train, max_eval_tokens, cleaning, preparation, cache_dir: as in `FilesCorpus`.
    """

    def __init__(
        self,
        *,
        seed: AtLeast0,
        train: AtLeast1,
        valid: AtLeast1,
        test: AtLeast1,
        long: AtLeast1,
        src_lang: str,
        tgt_lang: str,
        reverse: bool,
        both_directions: bool,
        noise: Mapping[str, Any] | None,
        max_train: AtLeast1 | None,
        max_eval_tokens: AtLeast1 | None,
        cleaning: Cleaning,
        preparation: Preparation,
        cache_dir: str,
    ) -> None:
        if {src_lang, tgt_lang} != {"en", "de"}:
            raise HeedError(
                f"data=synthetic is a corpus of English and German: data.src_lang={src_lang} data.tgt_lang={tgt_lang} "
                "must be en and de, or de and en."
            )
        self.sizes = {"train": train, "valid": valid, "test": test, "long": long}
        self.seed = seed
        reverse = reverse != (src_lang == "de")  # the grammar generates English sources
        self.assembly = _Assembly(
            reverse,
            both_directions,
            max_train,
            max_eval_tokens,
            cleaning,
            preparation,
            Path(cache_dir),
            parse_noise(noise),
        )

    def load(self) -> Corpus:
        """Generate the corpus: the same one on every machine for the same seed and sizes."""
        from heed.data.synthetic import generate

        splits = {
            name: ParallelText(
                [example.src for example in examples],
                [example.tgt for example in examples],
                [json.dumps(example.meta(), ensure_ascii=False) for example in examples],
            )
            for name, examples in generate(seed=self.seed, **self.sizes).items()
        }
        direction = Direction("en", "de")
        key = "synthetic", text_fingerprint(splits["train"])
        sets = {name: EvaluationSet(text, direction) for name, text in splits.items()}
        return self.assembly.assemble(
            "synthetic",
            [MixtureEntry("", [TextInMemory(splits["train"], key)], direction)],
            {"valid": sets["valid"]},
            {name: sets[name] for name in ("test", "long")},
        )


@validated("data.")
class FilesCorpus:
    """A corpus of parallel files.

    An entry of ``train``, ``valid`` and ``test`` is a pair [source file, target file] of UTF-8 text with one sentence
    per line (only "\\n" ends a line; "\\r" before it is dropped), or one file with both sides: .tsv, .csv, .jsonl,
    .parquet or .tmx. Files may be compressed (gzip, xz, bzip2, zstd). Names may be patterns ("part-*.tsv.gz"), and a
    folder stands for the files in it.

    Args:
        train, valid: lists of entries, which are concatenated. ``train`` may also be a mixture: a mapping from names to
            `MixtureOptions`, and ``valid`` a mapping from directions ("en-de") to lists. Its first direction is that of
            the texts and test sets that do not name theirs.
        temperature: of a mixture without weights: a text of n pairs gets the weight n^(1 / temperature), so that a
            higher temperature draws small texts more often (Arivazhagan et al. 2019, §4.2). None: 1.
        test: a mapping from names of test sets to lists of entries, or one list. A list of one entry is the test set
            "test"; each entry of a longer list is a test set named after its (source) file. None: there is no test set.
            A name that is a direction or ends with one ("news-en-de") is a set of this direction.
        src_field, tgt_field: fields of a file with both sides: columns of a table by their names in the first line or
            by their numbers from 1; "translation.de" is a field of a nested mapping.
        score_field: field of a score of each pair, such as those of bicleaner or LASER; None: there is none.
        min_score: train only on pairs with at least this score.
        src_lang, tgt_lang: language codes. None: guess from the suffixes of the first training files (a.en, a.de) or
            from the field names; otherwise recognise Chinese, Japanese and Korean by their script; otherwise "und".
        reverse: swap source and target.
        both_directions: train one model on every pair in both directions, distinguished by language tags.
        noise: arguments of the `heed.data.noise.Noise` of the training sources. None: no noise.
        max_train: train on a sample of this many clean pairs; None: on all.
        max_eval_tokens: refuse validation and test sets with a longer sentence (evaluation never drops or truncates).
        cleaning: the rules for training pairs.
        preparation: how the training text is prepared.
        cache_dir: folder of what is prepared.

    Raises:
        HeedError: naming the entry that is invalid.
    """

    def __init__(
        self,
        *,
        train: Sequence[FileEntry] | Mapping[str, Mapping[str, Any]],
        temperature: Annotated[float, Interval(ge=1)] | None,
        valid: Sequence[FileEntry] | Mapping[str, Sequence[FileEntry]],
        test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]] | None,
        src_field: str | AtLeast1,
        tgt_field: str | AtLeast1,
        score_field: str | AtLeast1 | None,
        min_score: float | None,
        src_lang: str | None,
        tgt_lang: str | None,
        reverse: bool,
        both_directions: bool,
        noise: Mapping[str, Any] | None,
        max_train: AtLeast1 | None,
        max_eval_tokens: AtLeast1 | None,
        cleaning: Cleaning,
        preparation: Preparation,
        cache_dir: str,
    ) -> None:
        self.texts = _parse_mixture(train) if isinstance(train, Mapping) else {"": MixtureOptions(files=train)}
        if temperature is not None and "" in self.texts:
            raise HeedError(
                "data.temperature decides the weights of a mixture: leave it out, or name the texts in data.train: "
                "{news: {files: [[a.en,a.de]]}, crawl: {files: [b.tsv]}}."
            )
        if temperature is not None and any(text.weight for text in self.texts.values()):
            raise HeedError("data.temperature decides the weights of a mixture without weights: leave out one of them.")
        if str(src_field) == str(tgt_field):
            raise HeedError(
                f"data.src_field and data.tgt_field are both {src_field}: give the field of the source and that of the "
                "target."
            )
        self.valid = _parse_valid(valid)
        self.tests = _parse_tests(test)
        if None not in self.valid and (src_lang or tgt_lang):
            raise HeedError("data.valid names its directions: leave out data.src_lang and data.tgt_lang.")
        if min_score is not None and score_field is None:
            raise HeedError("data.min_score needs data.score_field, the field or column of the scores.")
        score = None if score_field is None else str(score_field)
        self.fields = Fields(str(src_field), str(tgt_field), score, (src_lang, tgt_lang))
        self.assembly = _Assembly(
            reverse,
            both_directions,
            max_train,
            max_eval_tokens,
            cleaning,
            preparation,
            Path(cache_dir),
            parse_noise(noise),
            min_score,
            temperature or 1.0,
        )

    def load(self) -> Corpus:
        """Read all files and clean the training pairs.

        Raises:
            HeedError: naming the invalid file, and its line if possible.
        """
        valid = {direction: self._read(entries, direction) for direction, entries in self.valid.items()}
        own = next(iter(self.valid)) or self._guess_direction(valid[None])
        train = [
            MixtureEntry(
                name,
                _find_all(text.entries, self._fields_of(text.direction)),
                text.direction or own,
                text.weight,
                text.from_step,
                text.tag,
                text.noise,
            )
            for name, text in self.texts.items()
        ]
        tests = {}
        for name, entries in self.tests.items():
            direction = self._direction_of_test(name, own)
            tests[name] = EvaluationSet(self._read(entries, direction), direction)
        sets = [EvaluationSet(text, direction or own) for direction, text in valid.items()]
        return self.assembly.assemble("files", train, name_validation_sets(sets), tests)

    def _read(self, entries: Sequence[Entry], direction: Direction | None) -> ParallelText:
        """Read an evaluation set. It has no scores, which are for training."""
        return ParallelText.read(_find_all(entries, replace(self._fields_of(direction), score=None)))

    def _fields_of(self, direction: Direction | None) -> Fields:
        """Return the fields of files of a direction; None: of that of the corpus, as far as it is given."""
        return replace(self.fields, languages=direction or next(iter(self.valid)) or self.fields.languages)

    def _direction_of_test(self, name: str, own: Direction) -> Direction:
        """Return the direction of a test set: the one that its name ends with, or the only one.

        Raises:
            HeedError: if the name does not end with one of several directions.
        """
        known = {own, *self.valid, *(text.direction for text in self.texts.values())} - {None}
        if self.assembly.both_directions:
            known |= {direction.reversed() for direction in known if direction}
        named = [direction for direction in known if re.search(rf"(^|[-.]){re.escape(str(direction))}$", name)]
        if not named and len(self.valid) > 1:
            raise HeedError(
                f"data.test: the name of the test set {name} must end with its direction, such as {name}-{own}: there "
                f"are {', '.join(sorted(map(str, known)))}."
            )
        return max(filter(None, named), key=lambda direction: len(str(direction)), default=own)

    def _guess_direction(self, valid: ParallelText) -> Direction:
        """Return the languages of the first training text: given, or guessed from names or from the script."""
        first = next(iter(self.texts.values()))
        if first.direction:
            return first.direction
        guesses = guess_languages_from_names(first.entries[0], self.fields)
        languages = [
            given or guess or guess_language_from_script((valid.src, valid.tgt)[side])
            for side, (given, guess) in enumerate(zip(self.fields.languages, guesses, strict=True))
        ]
        return Direction(*languages)


class MixtureOptions:
    """The options of a text of a mixture.

    Args:
        files: list of entries, as ``train``.
        direction: its languages, such as "en-fr". None: those of the corpus.
        weight: its share of the sentences, relative to the other texts. None: by its size and ``data.temperature``.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources, such as "<crawl>", which tells the model what kind of text it is (Caswell et
            al. 2019). None: no tag.
        noise: the arguments of its `heed.data.noise.Noise`. None: ``data.noise``.
    """

    def __init__(
        self,
        *,
        files: Sequence[FileEntry],
        direction: str | None = None,
        weight: Positive | None = None,
        from_step: AtLeast0 = 0,
        tag: str | None = None,
        noise: Mapping[str, Any] | None = None,
    ) -> None:
        self.entries = parse_entries("train", files)
        self.direction = None if direction is None else Direction.parse(direction, where="data.train: direction=")
        self.noise = parse_noise(noise)
        self.weight, self.from_step, self.tag = weight, from_step, tag
        if tag is not None and not re.fullmatch(r"<(?!2|0x|/|(s|pad|unk)>)[^<>\s]+>", tag):
            raise HeedError(
                f"data.train: tag={tag} must be a word in angle brackets, such as <crawl>, but no special token: not "
                "<s>, <unk> or <pad>, and not starting with 2, 0x or /."
            )


def parse_noise(given: Mapping[str, Any] | None) -> Noise | None:
    """Return the noise with these arguments; None for none.

    Raises:
        HeedError: if an argument is unknown or out of range.
    """
    if given is None:
        return None
    raise_problems(find_problems(Noise, given, where="data.noise."))
    return Noise(**given)


def _parse_mixture(train: Mapping[str, Mapping[str, Any]]) -> dict[str, MixtureOptions]:
    """Return the options of each text of a mixture."""
    mixture: dict[str, MixtureOptions] = {}
    for name, given in train.items():
        where = f"data.train.{name}."
        if not str(name):
            raise HeedError("data.train: a text of a mixture needs a name: {news: {files: [[a.en,a.de]]}}.")
        if not isinstance(given, Mapping):
            raise HeedError(f"data.train.{name}={given} must be a mapping such as {{files: [[a.en,a.de]], weight: 2}}.")
        raise_problems(find_problems(MixtureOptions, given, where=where))
        mixture[str(name)] = MixtureOptions(**given)
    if not mixture:
        raise HeedError("data.train is empty: give a list of pairs such as '[[a.en,a.de]]', or named texts.")
    if len({text.weight is None for text in mixture.values()}) > 1:
        raise HeedError("data.train: give every text a weight, or none of them.")
    return mixture


def _parse_valid(
    valid: Sequence[FileEntry] | Mapping[str, Sequence[FileEntry]],
) -> dict[Direction | None, list[Entry]]:
    """Return the entries of the validation sets by direction; None for a set that does not name it."""
    if not isinstance(valid, Mapping):
        return {None: parse_entries("valid", valid)}
    if not valid:
        raise HeedError("data.valid is empty: give a list of pairs such as '[[a.en,a.de]]', or one for each direction.")
    return {
        Direction.parse(str(name), where="data.valid."): parse_entries(f"valid.{name}", entries)
        for name, entries in valid.items()
    }


def _parse_tests(
    test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]] | None,
) -> dict[str, list[Entry]]:
    """Return the entries of the test sets by name."""
    if test is None:
        return {}
    if isinstance(test, Mapping):
        tests = {str(name): parse_entries(f"test.{name}", entries) for name, entries in test.items()}
    else:
        tests = name_test_sets(parse_entries("test", test))
    for name in tests:
        if re.match(r"(train|valid)$|valid-", name):
            raise HeedError(f"data.test: a test set cannot be called {name}, the name of another split: rename it.")
        if not re.fullmatch(r"[^/\0\ud800-\udfff]{1,100}", name) or name.startswith("."):
            raise HeedError(
                f"data.test: {name!r} cannot name a test set, because its translations are written to files with "
                "this name: choose a name of at most 100 characters without / that does not start with a dot."
            )
    return tests


def _find_all(entries: Sequence[Entry], fields: Fields) -> list[Source]:
    return [source for entry in entries for source in find_sources(entry, fields)]


@validated("data.")
class HubCorpus:
    """A published corpus: from the Hugging Face hub, or from a folder of text files.

    Args:
        name: name of the corpus in results.
        repository: hub repository (or the path of a local copy), with the columns ``src_lang`` and ``tgt_lang`` or with
            a column "translation" that has these fields; None if there is none.
        config: configuration of the repository ("de-en"); None: the only one.
        revision: commit of the repository; None: the newest.
        splits: the repository's names of "train", "valid" and "test". test None: there is no test set.
        root: a folder to read instead of the hub, with files ``{stem}.{src_lang}`` and ``{stem}.{tgt_lang}``; None: the
            hub.
        stems: file names of "train", "valid" and "test" in ``root``, without suffix.
        src_lang, tgt_lang: language codes: columns of the repository or suffixes of the files.
        reverse, both_directions, noise, max_train, max_eval_tokens, cleaning, preparation, cache_dir: as in
            `FilesCorpus`.

    Raises:
        HeedError: if both languages are the same.
    """

    def __init__(
        self,
        *,
        name: str,
        repository: str | None,
        config: str | None,
        revision: str | None,
        splits: Mapping[str, str | None],
        root: str | None,
        stems: Mapping[str, str],
        src_lang: str,
        tgt_lang: str,
        reverse: bool,
        both_directions: bool,
        noise: Mapping[str, Any] | None,
        max_train: AtLeast1 | None,
        max_eval_tokens: AtLeast1 | None,
        cleaning: Cleaning,
        preparation: Preparation,
        cache_dir: str,
    ) -> None:
        if src_lang == tgt_lang:
            raise HeedError(f"data.src_lang and data.tgt_lang are both {src_lang}: give two different languages.")
        self.name = name
        self.repository, self.config, self.revision, self.splits = repository, config, revision, splits
        self.root, self.stems = root, stems
        self.languages = src_lang, tgt_lang
        self.assembly = _Assembly(
            reverse,
            both_directions,
            max_train,
            max_eval_tokens,
            cleaning,
            preparation,
            Path(cache_dir),
            parse_noise(noise),
        )

    def load(self) -> Corpus:
        """Read all splits and clean the training pairs.

        Raises:
            HeedError: if the hub cannot be reached, or if a file of the folder is missing or invalid.
        """
        direction = Direction(*self.languages)
        valid = {"valid": EvaluationSet(ParallelText.read([self._source("valid")]), direction)}
        has_test = self.splits["test"] is not None
        tests = {"test": EvaluationSet(ParallelText.read([self._source("test")]), direction)} if has_test else {}
        return self.assembly.assemble(self.name, [MixtureEntry("", [self._source("train")], direction)], valid, tests)

    def _source(self, split: str) -> Source:
        src, tgt = self.languages
        if self.root is not None:
            root = Path(self.root).expanduser()
            return TextFiles(root / f"{self.stems[split]}.{src}", root / f"{self.stems[split]}.{tgt}")
        use_folder = (
            f"set data.root=DIR to a folder with {self.stems[split]}.{src}, {self.stems[split]}.{tgt} and so on."
        )
        if self.repository is None:
            raise HeedError(
                f"{self.name} is in no hub repository that keeps its test set apart from training: {use_folder}"
            )
        dataset = load_split(
            self.repository, str(self.splits[split]), config=self.config, revision=self.revision, otherwise=use_folder
        )
        return DatasetSource(dataset, self.repository, self.languages)
