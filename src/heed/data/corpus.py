"""Corpora: the built-in one, the user's files, or a corpus of the Hugging Face hub, loaded and cleaned.

Each class belongs to a file of ``conf/data``; its ``load()`` returns a `Corpus`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heed.data.cleaning import Cleaning, CleaningReport
from heed.data.digests import text_fingerprint
from heed.data.files import (
    FileEntry,
    FileSource,
    guess_language_from_script,
    guess_languages_from_names,
    name_test_sets,
    parse_entries,
)
from heed.data.hub import DatasetSource
from heed.data.preparation.corpus import Preparation, TrainingText
from heed.data.text import ParallelText, Source, TextInMemory
from heed.errors import HeedError, first_line
from heed.options import AtLeast0, AtLeast1, validated
from heed.progress import announced, reports_on_terminal


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
            min_score=None,
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
    per line (only "\\n" ends a line; "\\r" before it is dropped; .gz is decompressed), or one .jsonl or .parquet file
    with both sides.

    Args:
        train, valid: lists of entries, which are concatenated.
        test: a mapping from names of test sets to lists of entries, or one list. A list of one entry is the test set
            "test"; each entry of a longer list is a test set named after its (source) file.
        src_field, tgt_field: fields of a JSONL or parquet file; "translation.de" is a field of a nested mapping.
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
        test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]],
        src_field: str,
        tgt_field: str,
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
        if isinstance(test, Mapping):
            self.tests = {str(name): parse_entries(f"test.{name}", entries) for name, entries in test.items()}
        else:
            self.tests = name_test_sets(parse_entries("test", test))
        if taken := {"train", "valid"} & set(self.tests):
            raise HeedError(
                f"data.test: a test set cannot be called {taken.pop()}, the name of another split: rename it."
            )
        for name in self.tests:
            if not re.fullmatch(r"[^/\0\ud800-\udfff]{1,100}", name) or name.startswith("."):
                raise HeedError(
                    f"data.test: {name!r} cannot name a test set, because its translations are written to files with "
                    "this name: choose a name of at most 100 characters without / that does not start with a dot."
                )
        self.fields = src_field, tgt_field
        self.languages = src_lang, tgt_lang
        self.assembly = _Assembly(
            reverse, both_directions, max_train, max_eval_tokens, cleaning, preparation, Path(cache_dir)
        )

    def load(self) -> Corpus:
        """Read all files and clean the training pairs.

        Raises:
            HeedError: naming the invalid file, and its line if possible.
        """
        valid = ParallelText.read(self._sources(self.valid))
        guesses = guess_languages_from_names(self.train[0], self.fields)
        languages = [
            given or guess or guess_language_from_script((valid.src, valid.tgt)[side])
            for side, (given, guess) in enumerate(zip(self.languages, guesses, strict=True))
        ]
        tests = {name: ParallelText.read(self._sources(entries)) for name, entries in self.tests.items()}
        return self.assembly.assemble("files", (languages[0], languages[1]), self._sources(self.train), valid, tests)

    def _sources(self, entries: Sequence[tuple[Path, ...]]) -> list[Source]:
        return [FileSource(files, self.fields) for files in entries]


@validated("data.")
class HubCorpus:
    """A published corpus: from the Hugging Face hub, or from a folder of text files.

    Args:
        name: name of the corpus in results.
        repository: hub repository (or the path of a local copy), with the columns ``src_lang`` and ``tgt_lang``; None
            if there is none.
        revision: commit of the repository; None: the newest.
        splits: the repository's names of "train", "valid" and "test".
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
        revision: str | None,
        splits: Mapping[str, str],
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
        self.repository, self.revision, self.splits = repository, revision, splits
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
        train, valid, test = (
            self._download(split) if self.root is None else self._files(Path(self.root).expanduser(), split)
            for split in ("train", "valid", "test")
        )
        return self.assembly.assemble(
            self.name, self.languages, [train], ParallelText.read([valid]), {"test": ParallelText.read([test])}
        )

    def _files(self, root: Path, split: str) -> Source:
        src, tgt = (root / f"{self.stems[split]}.{language}" for language in self.languages)
        return FileSource((src, tgt), ("", ""))

    def _download(self, split: str) -> Source:
        src, tgt = self.languages
        use_folder = (
            f"set data.root=DIR to a folder with {self.stems[split]}.{src}, {self.stems[split]}.{tgt} and so on."
        )
        if self.repository is None:
            raise HeedError(
                f"{self.name} is in no hub repository that keeps its test set apart from training: {use_folder}"
            )

        from datasets import config, disable_progress_bars, load_dataset
        from huggingface_hub import HfApi

        if not reports_on_terminal():
            disable_progress_bars()  # datasets would write its bars to a log file
        try:
            # Without network, load_dataset retries for long before it looks for an earlier download or fails.
            download = Path(config.HF_DATASETS_CACHE, self.repository.replace("/", "___"))
            is_local = download.is_dir() or Path(self.repository).is_dir()
            if not is_local:
                HfApi().dataset_info(self.repository, revision=self.revision, timeout=10)
            with announced(
                "Loading from the Hugging Face hub",
                f"{self.repository}, {split}",
                expected_seconds=0 if is_local else 60,
            ):
                dataset = load_dataset(self.repository, split=self.splits[split], revision=self.revision)
        except Exception as error:  # the class depends on the versions of several HTTP libraries
            raise HeedError(
                f"{self.repository} could not be loaded from the Hugging Face hub ({first_line(error)}): {use_folder}"
            ) from error
        if missing := {src, tgt} - set(dataset.column_names):
            raise HeedError(
                f"{self.repository} has no column {' or '.join(sorted(missing))}: "
                f"set data.src_lang and data.tgt_lang to two of {', '.join(dataset.column_names)}."
            )

        for column in (src, tgt):
            if (kind := getattr(dataset.features[column], "dtype", "nested")) not in ("string", "large_string"):
                raise HeedError(f"{self.repository}, column {column}: it holds {kind} values but must hold text.")

        return DatasetSource(dataset, self.languages)
