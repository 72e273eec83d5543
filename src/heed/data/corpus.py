"""Corpora: the built-in one, the user's files, or a corpus of the Hugging Face hub, loaded and cleaned.

Each class belongs to a file of ``conf/data``; its ``load()`` returns a `Corpus`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from heed.data.preparation.corpus import Preparation, TrainingText
from heed.data.text import ParallelText, Source, TextInMemory
from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, validated


@dataclass(frozen=True)
class Corpus:
    """Parallel text. ``train`` is cleaned; ``valid`` and ``tests`` are as published."""

    name: str
    src_lang: str
    tgt_lang: str
    train: TrainingText
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
    min_score: float | None = None

    def assemble(
        self,
        name: str,
        languages: tuple[str, str],
        train: Sequence[Source],
        valid: ParallelText,
        tests: dict[str, ParallelText],
    ) -> Corpus:
        """Return the corpus."""
        if self.reverse:
            languages = languages[1], languages[0]
            valid, tests = _swap_sides(valid), {test: _swap_sides(text) for test, text in tests.items()}
        if self.both_directions and languages[0] == languages[1]:
            raise HeedError(
                f"data.both_directions=true needs two different languages, but both are {languages[0]!r}: set "
                "data.src_lang and data.tgt_lang."
            )
        text = TrainingText(
            train,
            held_out=[valid, *tests.values()],
            cleaning=self.cleaning,
            min_score=self.min_score,
            at_most=self.max_train,
            swapped=self.reverse,
            preparation=self.preparation,
            cache_dir=self.cache_dir,
        )
        if not len(text):
            raise HeedError(f"Cleaning left nothing to train on (the rules are data.cleaning.*).\n{text.report}")
        return Corpus(name, *languages, text, valid, tests, self.both_directions, self.max_eval_tokens)


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
        both_directions, max_train, max_eval_tokens, cleaning, preparation, cache_dir: as in `FilesCorpus`.
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
            reverse, both_directions, max_train, max_eval_tokens, cleaning, preparation, Path(cache_dir)
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
        train, valid: lists of entries, which are concatenated.
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
        train: Sequence[FileEntry],
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
        max_train: AtLeast1 | None,
        max_eval_tokens: AtLeast1 | None,
        cleaning: Cleaning,
        preparation: Preparation,
        cache_dir: str,
    ) -> None:
        self.train = parse_entries("train", train)
        self.valid = parse_entries("valid", valid)
        self.tests = _parse_tests(test)
        if min_score is not None and score_field is None:
            raise HeedError("data.min_score needs data.score_field, the field or column of the scores.")
        languages = src_lang, tgt_lang
        self.fields = Fields(src_field, tgt_field, score_field, languages)
        self.languages = languages
        self.assembly = _Assembly(
            reverse, both_directions, max_train, max_eval_tokens, cleaning, preparation, Path(cache_dir), min_score
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
        guesses = guess_languages_from_names(self.train[0], self.fields)
        languages = [
            given or guess or guess_language_from_script((valid.src, valid.tgt)[side])
            for side, (given, guess) in enumerate(zip(self.languages, guesses, strict=True))
        ]
        train = _find_all(self.train, self.fields)
        return self.assembly.assemble("files", (languages[0], languages[1]), train, valid, tests)


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
        reverse, both_directions, max_train, max_eval_tokens, cleaning, preparation, cache_dir: as in `FilesCorpus`.

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
            reverse, both_directions, max_train, max_eval_tokens, cleaning, preparation, Path(cache_dir)
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
