"""Corpora: the built-in one, the user's files, or a corpus of the Hugging Face hub, loaded and cleaned.

Each class belongs to a file of ``conf/data``; its ``load()`` returns a `Corpus`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval

from heed.data.cleaning import Cleaning, CleaningReport
from heed.data.digests import text_fingerprint
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


@dataclass(frozen=True)
class Corpus:
    """Parallel text. ``train`` is cleaned; ``valid`` and ``tests`` are as published."""

    name: str
    src_lang: str
    tgt_lang: str
    train: TrainingTexts
    valid: ParallelText
    tests: dict[str, ParallelText]
    """Test sets by name."""
    both_directions: bool
    """Train on every pair in both directions. ``train`` contains it once."""
    max_eval_tokens: int | None
    """Largest accepted length of a validation or test sentence, in tokens of either side; None: no limit."""

    @property
    def fingerprint(self) -> str:
        """Digest of all text after cleaning; independent of the machine."""
        held_out = text_fingerprint(self.valid, *self.tests.values())
        return hashlib.blake2b(f"{self.train.fingerprint} {held_out}".encode(), digest_size=16).hexdigest()

    @property
    def cleaning(self) -> CleaningReport:
        """What the cleaning rules dropped."""
        return self.train.report

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags of both directions, this direction's first; empty for a model of one direction."""
        return (language_tag(self.tgt_lang), language_tag(self.src_lang)) if self.both_directions else ()

    @property
    def all_tags(self) -> tuple[str, ...]:
        """The language tags and those of the training texts."""
        return self.tags + self.train.tags


def language_tag(tgt_lang: str) -> str:
    """Return the first token of a source that tells the model the target language (Johnson et al. 2017, §3)."""
    return f"<2{tgt_lang}>"


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
        languages: tuple[str, str],
        train: Sequence[Source] | Sequence["MixtureEntry"],
        valid: ParallelText,
        tests: dict[str, ParallelText],
    ) -> Corpus:
        """Return the corpus.

        Args:
            train: the inputs of one text, or the texts of a mixture.
        """
        if self.reverse:
            languages = languages[1], languages[0]
            valid, tests = _swap_sides(valid), {test: _swap_sides(text) for test, text in tests.items()}
        if self.both_directions and languages[0] == languages[1]:
            raise HeedError(
                f"data.both_directions=true needs two different languages, but both are {languages[0]!r}: set "
                "data.src_lang and data.tgt_lang."
            )
        held_out = [valid, *tests.values()]
        if any(isinstance(part, MixtureEntry) for part in train):
            texts = self._mix([part for part in train if isinstance(part, MixtureEntry)], held_out)
        else:
            sources = [part for part in train if not isinstance(part, MixtureEntry)]
            texts = TrainingTexts.single(self._select(sources, held_out), self.noise)
        return Corpus(name, *languages, texts, valid, tests, self.both_directions, self.max_eval_tokens)

    def _mix(self, entries: Sequence["MixtureEntry"], held_out: Sequence[ParallelText]) -> TrainingTexts:
        """Return a mixture. Of duplicates across its texts, the heaviest text keeps its own."""
        selected: dict[str, TrainingText] = {}
        for entry in sorted(entries, key=lambda entry: -(entry.weight or 0)):
            selected[entry.name] = self._select(entry.sources, held_out, heavier=list(selected.values()), of=entry.name)
        corpora = []
        for entry in entries:
            text = selected[entry.name]
            weight = float(len(text)) ** (1 / self.temperature) if entry.weight is None else entry.weight
            corpora.append(
                TrainingCorpus(entry.name, text, weight, entry.from_step, entry.tag, entry.noise or self.noise)
            )
        return TrainingTexts(corpora)

    def _select(
        self,
        sources: Sequence[Source],
        held_out: Sequence[ParallelText],
        *,
        heavier: Sequence[TrainingText] = (),
        of: str = "",
    ) -> TrainingText:
        text = TrainingText(
            sources,
            held_out=held_out,
            cleaning=self.cleaning,
            min_score=self.min_score,
            at_most=self.max_train,
            swapped=self.reverse,
            preparation=self.preparation,
            cache_dir=self.cache_dir,
            heavier=heavier,
        )
        if not len(text):
            where = f" in data.train.{of}" if of else ""
            raise HeedError(f"Cleaning left nothing to train on{where} (the rules are data.cleaning.*).\n{text.report}")
        return text


@dataclass(frozen=True)
class MixtureEntry:
    """A text of a mixture.

    Args:
        name: its name.
        sources: its inputs.
        weight: its share of the sentences, relative to the other texts; None: decided by its size.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources; None: no tag.
        noise: of its sources; None: that of the corpus.
    """

    name: str
    sources: Sequence[Source]
    weight: float | None
    from_step: int
    tag: str | None
    noise: Noise | None


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
        key = "synthetic", text_fingerprint(splits["train"])
        return self.assembly.assemble(
            "synthetic",
            ("en", "de"),
            [TextInMemory(splits["train"], key)],
            splits["valid"],
            {name: splits[name] for name in ("test", "long")},
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
            `MixtureOptions`.
        temperature: of a mixture without weights: a text of n pairs gets the weight n^(1 / temperature), so that a
            higher temperature draws small texts more often (Arivazhagan et al. 2019, §4.2). None: 1.
        test: a mapping from names of test sets to lists of entries, or one list. A list of one entry is the test set
            "test"; each entry of a longer list is a test set named after its (source) file. None: there is no test set.
        src_field, tgt_field: fields of a file with both sides: columns of a table by their names in the first line or
            by their numbers from 1; "translation.de" is a field of a nested mapping.
        score_field: field of a score of each pair, such as those of bicleaner or LASER; None: there is none.
        min_score: train only on pairs with at least this score.
        src_lang, tgt_lang: language codes. None: guess from the suffixes of the first training files (a.en, a.de) or
            from the field names; otherwise recognise Chinese, Japanese and Korean by their script; otherwise "und".
        reverse: swap source and target.
        both_directions: train one model on every pair in both directions, distinguished by language tags; validate and
            test on this direction only.
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
        valid: Sequence[FileEntry],
        test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]] | None,
        src_field: str,
        tgt_field: str,
        score_field: str | None,
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
        self.train = [] if isinstance(train, Mapping) else parse_entries("train", train)
        self.mixture = _parse_mixture(train) if isinstance(train, Mapping) else {}
        if temperature is not None and not (self.mixture and all(o.weight is None for o in self.mixture.values())):
            raise HeedError("data.temperature decides the weights of a mixture without weights: leave out one of them.")
        self.valid = parse_entries("valid", valid)
        self.tests = _parse_tests(test)
        if min_score is not None and score_field is None:
            raise HeedError("data.min_score needs data.score_field, the field or column of the scores.")
        languages = src_lang, tgt_lang
        self.fields = Fields(src_field, tgt_field, score_field, languages)
        self.languages = languages
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
        # Scores are for training: evaluation sets are read as they are.
        without_scores = replace(self.fields, score=None)
        valid = ParallelText.read(_find_all(self.valid, without_scores))
        tests = {name: ParallelText.read(_find_all(entries, without_scores)) for name, entries in self.tests.items()}
        first = next(iter(self.train or next(iter(self.mixture.values())).entries))
        guesses = guess_languages_from_names(first, self.fields)
        languages = [
            given or guess or guess_language_from_script((valid.src, valid.tgt)[side])
            for side, (given, guess) in enumerate(zip(self.languages, guesses, strict=True))
        ]
        train: Sequence[Source] | Sequence[MixtureEntry] = _find_all(self.train, self.fields) or [
            MixtureEntry(name, _find_all(text.entries, self.fields), text.weight, text.from_step, text.tag, text.noise)
            for name, text in self.mixture.items()
        ]
        return self.assembly.assemble("files", (languages[0], languages[1]), train, valid, tests)


class MixtureOptions:
    """The options of a text of a mixture.

    Args:
        files: list of entries, as ``train``.
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
        weight: Positive | None = None,
        from_step: AtLeast0 = 0,
        tag: str | None = None,
        noise: Mapping[str, Any] | None = None,
    ) -> None:
        self.entries = parse_entries("train", files)
        self.noise = parse_noise(noise)
        self.weight, self.from_step, self.tag = weight, from_step, tag
        if tag is not None and (not re.fullmatch(r"<[^<>\s]+>", tag) or tag.startswith("<2")):
            raise HeedError(
                f"data.train: tag={tag} must be a word in angle brackets that does not start with 2: <crawl>."
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
        if not isinstance(given, Mapping):
            raise HeedError(f"data.train.{name}={given} must be a mapping such as {{files: [[a.en,a.de]], weight: 2}}.")
        raise_problems(find_problems(MixtureOptions, given, where=where))
        mixture[str(name)] = MixtureOptions(**given)
    if not mixture:
        raise HeedError("data.train is empty: give a list of pairs such as '[[a.en,a.de]]', or named texts.")
    if len({text.weight is None for text in mixture.values()}) > 1:
        raise HeedError("data.train: give every text a weight, or none of them.")
    return mixture


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
    if taken := {"train", "valid"} & set(tests):
        raise HeedError(f"data.test: a test set cannot be called {taken.pop()}, the name of another split: rename it.")
    for name in tests:
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
        train, valid = self._source("train"), ParallelText.read([self._source("valid")])
        tests = {"test": ParallelText.read([self._source("test")])} if self.splits["test"] else {}
        return self.assembly.assemble(self.name, self.languages, [train], valid, tests)

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
