"""Corpora: the built-in one, the user's files, or a corpus of the Hugging Face hub, loaded and cleaned.

Each class belongs to a file of ``conf/data``; its ``load()`` returns a `Corpus`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heed.data.cache import blocks, text_fingerprint
from heed.data.cleaning import Cleaning, CleaningReport
from heed.data.files import (
    FileEntry,
    guess_language_from_script,
    guess_languages_from_names,
    name_test_sets,
    one_line,
    parse_entries,
    read_files,
)
from heed.errors import HeedError, first_line
from heed.options import AtLeast0, AtLeast1, validated
from heed.progress import announced, reports_on_terminal

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Corpus:
    """Parallel text. ``train`` is cleaned; ``valid`` and ``tests`` are as published.

    The datasets have the string columns "src" and "tgt". Annotated corpora also have "meta": the annotations as JSON.
    """

    name: str
    src_lang: str
    tgt_lang: str
    train: "Dataset"
    valid: "Dataset"
    tests: "dict[str, Dataset]"
    """Test sets by name."""
    both_directions: bool
    """Train on every pair in both directions. ``train`` contains it once."""
    max_eval_tokens: int | None
    """Largest accepted length of a validation or test sentence, in tokens of either side; None: no limit."""
    fingerprint: str
    """Digest of all text after cleaning; independent of the machine."""
    cleaning: CleaningReport

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags of both directions, this direction's first; empty for a model of one direction."""
        return (language_tag(self.tgt_lang), language_tag(self.src_lang)) if self.both_directions else ()


def language_tag(tgt_lang: str) -> str:
    """Return the first token of a source that tells the model the target language (Johnson et al. 2017, §3)."""
    return f"<2{tgt_lang}>"


@validated("data.")
class SyntheticCorpus:
    """The built-in English-German corpus, with gold alignments and phenomenon tags in "meta".

    Args:
        seed: random seed of `heed.data.synthetic.generate`.
        train, valid, test, long: pairs per split.
        src_lang, tgt_lang: "en" and "de", or "de" and "en".
        reverse: swap source and target.
        both_directions, max_train, max_eval_tokens, cleaning, cache_dir: as in `FilesCorpus`.
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
        cache_dir: str,
    ) -> None:
        if {src_lang, tgt_lang} != {"en", "de"}:
            raise HeedError(
                f"data=synthetic is a corpus of English and German: data.src_lang={src_lang} data.tgt_lang={tgt_lang} "
                "must be en and de, or de and en."
            )
        self.sizes = {"train": train, "valid": valid, "test": test, "long": long}
        self.seed = seed
        self.reverse = reverse != (src_lang == "de")  # the grammar generates English sources
        self.both_directions = both_directions
        self.max_train, self.max_eval_tokens, self.cleaning = max_train, max_eval_tokens, cleaning
        self.cache_dir = Path(cache_dir)

    def load(self) -> Corpus:
        """Generate the corpus: the same one on every machine for the same seed and sizes."""
        from datasets import Dataset

        from heed.data.synthetic import generate

        splits = {
            name: Dataset.from_dict(
                {
                    "src": [example.src for example in examples],
                    "tgt": [example.tgt for example in examples],
                    "meta": [json.dumps(example.meta(), ensure_ascii=False) for example in examples],
                }
            )
            for name, examples in generate(seed=self.seed, **self.sizes).items()
        }
        return _prepare(
            "synthetic",
            ("en", "de"),
            splits["train"],
            splits["valid"],
            {name: splits[name] for name in ("test", "long")},
            reverse=self.reverse,
            both_directions=self.both_directions,
            max_train=self.max_train,
            max_eval_tokens=self.max_eval_tokens,
            cleaning=self.cleaning,
            cache_dir=self.cache_dir,
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
        cache_dir: folder for the text in Arrow format, which is memory-mapped.

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
        self.reverse, self.both_directions = reverse, both_directions
        self.max_train, self.max_eval_tokens, self.cleaning = max_train, max_eval_tokens, cleaning
        self.cache_dir = Path(cache_dir)

    def load(self) -> Corpus:
        """Read all files and clean the training pairs.

        Raises:
            HeedError: naming the invalid file, and its line if possible.
        """
        train, valid = self._read(self.train), self._read(self.valid)
        guesses = guess_languages_from_names(self.train[0], self.fields)
        languages = [
            given or guess or guess_language_from_script(next(blocks(valid))[side])
            for side, (given, guess) in enumerate(zip(self.languages, guesses, strict=True))
        ]
        return _prepare(
            "files",
            (languages[0], languages[1]),
            train,
            valid,
            {name: self._read(entries) for name, entries in self.tests.items()},
            reverse=self.reverse,
            both_directions=self.both_directions,
            max_train=self.max_train,
            max_eval_tokens=self.max_eval_tokens,
            cleaning=self.cleaning,
            cache_dir=self.cache_dir,
        )

    def _read(self, entries: Sequence[tuple[Path, ...]]) -> "Dataset":
        from datasets import concatenate_datasets

        return concatenate_datasets([read_files(files, self.fields, self.cache_dir) for files in entries])


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
        reverse, both_directions, max_train, max_eval_tokens, cleaning, cache_dir: as in `FilesCorpus`.

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
        cache_dir: str,
    ) -> None:
        if src_lang == tgt_lang:
            raise HeedError(f"data.src_lang and data.tgt_lang are both {src_lang}: give two different languages.")
        self.name = name
        self.repository, self.revision, self.splits = repository, revision, splits
        self.root, self.stems = root, stems
        self.languages = src_lang, tgt_lang
        self.reverse, self.both_directions = reverse, both_directions
        self.max_train, self.max_eval_tokens, self.cleaning = max_train, max_eval_tokens, cleaning
        self.cache_dir = Path(cache_dir)

    def load(self) -> Corpus:
        """Read all splits and clean the training pairs.

        Raises:
            HeedError: if the hub cannot be reached, or if a file of the folder is missing or invalid.
        """
        train, valid, test = (
            self._download(split) if self.root is None else self._read(Path(self.root).expanduser(), split)
            for split in ("train", "valid", "test")
        )
        return _prepare(
            self.name,
            self.languages,
            train,
            valid,
            {"test": test},
            reverse=self.reverse,
            both_directions=self.both_directions,
            max_train=self.max_train,
            max_eval_tokens=self.max_eval_tokens,
            cleaning=self.cleaning,
            cache_dir=self.cache_dir,
        )

    def _read(self, root: Path, split: str) -> "Dataset":
        files = tuple(root / f"{self.stems[split]}.{language}" for language in self.languages)
        return read_files(files, ("", ""), self.cache_dir)

    def _download(self, split: str) -> "Dataset":
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

        def one_line_each(batch: Mapping[str, list[str | None]]) -> dict[str, list[str]]:
            return {side: [one_line(text or "") for text in batch[lang]] for side, lang in (("src", src), ("tgt", tgt))}

        return dataset.map(one_line_each, batched=True, remove_columns=dataset.column_names)


def _prepare(
    name: str,
    languages: tuple[str, str],
    train: "Dataset",
    valid: "Dataset",
    tests: "dict[str, Dataset]",
    *,
    reverse: bool,
    both_directions: bool,
    max_train: int | None,
    max_eval_tokens: int | None,
    cleaning: Cleaning,
    cache_dir: Path,
) -> Corpus:
    """Return the corpus after the steps that all kinds of corpora share: reversal, cleaning, fingerprint."""
    if reverse:
        languages = languages[1], languages[0]
        train, valid = _swap_sides(train), _swap_sides(valid)
        tests = {test: _swap_sides(split) for test, split in tests.items()}
    if both_directions and languages[0] == languages[1]:
        raise HeedError(
            f"data.both_directions=true needs two different languages, but both are {languages[0]!r}: set "
            "data.src_lang and data.tgt_lang."
        )
    cleaned, report = cleaning.apply(train, held_out=[valid, *tests.values()], at_most=max_train, cache_dir=cache_dir)
    if not len(cleaned):
        raise HeedError(f"Cleaning left nothing to train on (the rules are data.cleaning.*).\n{report}")
    return Corpus(
        name=name,
        src_lang=languages[0],
        tgt_lang=languages[1],
        train=cleaned,
        valid=valid,
        tests=tests,
        both_directions=both_directions,
        max_eval_tokens=max_eval_tokens,
        fingerprint=text_fingerprint(cleaned, valid, *tests.values()),
        cleaning=report,
    )


def _swap_sides(split: "Dataset") -> "Dataset":
    """Return the split with source and target swapped.

    Gold alignments are swapped too. Antecedents and roles are dropped, because they are positions in the old source.
    """
    swapped = split.rename_columns({"src": "tgt", "tgt": "src"})
    if "meta" not in split.column_names:
        return swapped
    metas = [json.loads(meta) for meta in split["meta"]]
    for meta in metas:
        meta["alignment"] = sorted([tgt, src] for src, tgt in meta["alignment"])
        meta.update({key: empty for key, empty in (("antecedent", None), ("roles", {})) if key in meta})
    texts = [json.dumps(meta, ensure_ascii=False) for meta in metas]
    return swapped.remove_columns("meta").add_column("meta", texts)
