"""From any source of parallel text to one cleaned corpus: built-in, files of any kind, or the Hugging Face hub.

Each class is one value of ``data=…``; its ``load()`` gives the same `Corpus`.
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
    Source,
    file_entries,
    language_by_script,
    languages_by_name,
    named_by_file,
    one_line,
    read_files,
)
from heed.errors import HeedError, first_line
from heed.options import AtLeast0, AtLeast1

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Corpus:
    """Parallel text, ready for a tokenizer. ``train`` is cleaned; ``valid`` and ``tests`` are as they were published.

    The datasets have the string columns "src" and "tgt", and "meta" (JSON text) where something is known of a pair.
    """

    name: str
    src_lang: str
    tgt_lang: str
    train: "Dataset"
    valid: "Dataset"
    tests: "dict[str, Dataset]"
    both_directions: bool
    """Train on every pair both ways; ``train`` has it once."""
    max_eval_tokens: int | None
    """The longest validation or test sentence that is accepted, in tokens of either side; None: any."""
    fingerprint: str
    """A digest of all the text, cleaned: the same on every machine."""
    cleaning: CleaningReport

    @property
    def tags(self) -> tuple[str, ...]:
        """What opens a source into ``tgt_lang`` and into ``src_lang``, where one model learns both; else nothing."""
        return (tag(self.tgt_lang), tag(self.src_lang)) if self.both_directions else ()


def tag(tgt_lang: str) -> str:
    """The first token of a source, telling a model of several directions where to (Johnson et al. 2017, §3)."""
    return f"<2{tgt_lang}>"


class SyntheticCorpus:
    """The built-in English-German corpus, with gold alignments and phenomenon tags in "meta".

    Args:
        seed, train, valid, test, long: of the grammar's `generate`: its random seed, and pairs per split.
        src_lang, tgt_lang: "en" and "de", or "de" and "en".
        reverse: swap the two sides, languages included.
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
        self.reverse = reverse != (src_lang == "de")  # the grammar writes English first
        self.both_directions = both_directions
        self.max_train, self.max_eval_tokens, self.cleaning = max_train, max_eval_tokens, cleaning
        self.cache_dir = Path(cache_dir)

    def load(self) -> Corpus:
        """Write the corpus: the same for the same seed and sizes, on every machine."""
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


class FilesCorpus:
    """Anybody's parallel files.

    Each of ``train``, ``valid`` and ``test`` is a list. An entry is a pair [source file, target file] of UTF-8 text
    with one sentence a line (only "\\n" ends a line; a "\\r" before it is dropped; .gz is read as it is), or one
    .jsonl or .parquet file that holds both sides. ``test`` may also be a mapping from names to such lists; otherwise
    one entry is the test set "test", and of several each is a test set named after its (source) file.

    Args:
        src_field, tgt_field: where a JSONL or parquet file holds the two sides; "translation.de" goes into a mapping.
        src_lang, tgt_lang: language codes. None: the first training pair's file suffixes (a.en, a.de) or the field
            names where they are codes; else Chinese, Japanese and Korean are known by their script; else "und".
        reverse: swap the two sides of everything, languages included.
        both_directions: train one model on every pair both ways, a tag telling which; validate and test this way only.
        max_train: train on so many of the clean pairs, a sample; None: on all.
        max_eval_tokens: refuse a validation or test set with a longer sentence (evaluation never drops or cuts one).
        cache_dir: where the text is kept in Arrow format, memory-mapped.
    """

    def __init__(
        self,
        *,
        train: Sequence[Source],
        valid: Sequence[Source],
        test: Sequence[Source] | Mapping[str, Sequence[Source]],
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
        self.train = file_entries("train", train)
        self.valid = file_entries("valid", valid)
        if isinstance(test, Mapping):
            self.tests = {str(name): file_entries(f"test.{name}", entries) for name, entries in test.items()}
        else:
            self.tests = named_by_file(file_entries("test", test))
        if taken := {"train", "valid"} & set(self.tests):
            raise HeedError(f"data.test: a test set cannot be called {taken.pop()}, which is another split's name.")
        for name in self.tests:
            if not re.fullmatch(r"[^/\0\ud800-\udfff]{1,100}", name) or name.startswith("."):
                raise HeedError(
                    f"data.test: {name!r} cannot name a test set, whose translations are files of this name: choose a "
                    "shorter name, without / and not beginning with a dot."
                )
        self.fields = src_field, tgt_field
        self.languages = src_lang, tgt_lang
        self.reverse, self.both_directions = reverse, both_directions
        self.max_train, self.max_eval_tokens, self.cleaning = max_train, max_eval_tokens, cleaning
        self.cache_dir = Path(cache_dir)

    def load(self) -> Corpus:
        """Read and clean everything.

        Raises:
            HeedError: naming the file, and the line where there is one, that cannot be used.
        """
        train, valid = self._read(self.train), self._read(self.valid)
        guesses = languages_by_name(self.train[0], self.fields)
        languages = [
            told or guess or language_by_script(next(blocks(valid))[side])
            for side, (told, guess) in enumerate(zip(self.languages, guesses, strict=True))
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


class HubCorpus:
    """A published corpus: from the Hugging Face hub, or from a folder of text files.

    Args:
        name: what the corpus is called in results.
        repository: its hub repository (or a local copy of one), with the columns ``src_lang`` and ``tgt_lang``; None
            where there is none.
        revision: the repository's commit; None: the newest.
        splits: the hub's names of "train", "valid" and "test".
        root: a folder that is read instead, with files ``{stem}.{src_lang}`` and ``{stem}.{tgt_lang}``; None: the hub.
        stems: the files' names of "train", "valid" and "test".
        src_lang, tgt_lang, reverse, both_directions, max_train, max_eval_tokens, cleaning, cache_dir: as in
            `FilesCorpus`.
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
        """Read and clean everything.

        Raises:
            HeedError: if the hub cannot be reached, or a file of the folder is missing or unusable.
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
        from_folder = (
            f"data.root=DIR reads it from a folder with {self.stems[split]}.{src}, {self.stems[split]}.{tgt} and so on."
        )
        if self.repository is None:
            raise HeedError(
                f"{self.name} is in no hub repository whose test set is kept apart from training: {from_folder}"
            )

        from datasets import config, load_dataset
        from huggingface_hub import HfApi

        try:
            # Without network load_dataset retries for 24 s before it looks for an earlier download, or gives up.
            earlier = Path(config.HF_DATASETS_CACHE, self.repository.replace("/", "___"))
            if not earlier.is_dir() and not Path(self.repository).is_dir():
                HfApi().dataset_info(self.repository, revision=self.revision, timeout=10)
            dataset = load_dataset(self.repository, split=self.splits[split], revision=self.revision)
        except Exception as error:  # of several HTTP libraries, by version
            raise HeedError(
                f"{self.repository} could not be loaded from the Hugging Face hub ({first_line(error)}): {from_folder}"
            ) from error
        if missing := {src, tgt} - set(dataset.column_names):
            raise HeedError(
                f"{self.repository} has no column {' or '.join(sorted(missing))}: "
                f"data.src_lang and data.tgt_lang are two of {', '.join(dataset.column_names)}."
            )

        for column in (src, tgt):
            if (kind := getattr(dataset.features[column], "dtype", "nested")) not in ("string", "large_string"):
                raise HeedError(f"{self.repository}, column {column}: it holds {kind} values, and must hold text.")

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
    """Reverse if asked, clean the training pairs, and fingerprint all text: the last steps of every source."""
    if reverse:
        languages = languages[1], languages[0]
        train, valid = _reversed(train), _reversed(valid)
        tests = {test: _reversed(split) for test, split in tests.items()}
    if both_directions and languages[0] == languages[1]:
        raise HeedError(
            f"data.both_directions=true has to tell two languages apart, and both are {languages[0]!r}: name them with "
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


def _reversed(split: "Dataset") -> "Dataset":
    """Swap source and target, gold alignments included; positions in the old source are dropped with it."""
    turned = split.rename_columns({"src": "tgt", "tgt": "src"})
    if "meta" not in split.column_names:
        return turned
    metas = [json.loads(meta) for meta in split["meta"]]
    for meta in metas:
        meta["alignment"] = sorted([tgt, src] for src, tgt in meta["alignment"])
        meta.update({key: empty for key, empty in (("antecedent", None), ("roles", {})) if key in meta})
    texts = [json.dumps(meta, ensure_ascii=False) for meta in metas]
    return turned.remove_columns("meta").add_column("meta", texts)
