"""``data=multi30k``, ``data=tatoeba`` and other published corpora: from the Hugging Face hub or a folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.compat import dataset_digest
from heed.data.text.corpus import Corpus, CorpusOptions, EvaluationSet, Text
from heed.data.text.formats.files import one_line
from heed.data.text.formats.sources import FileSource, read_text
from heed.data.text.source import BLOCK, Sentences, Source
from heed.errors import HeedError
from heed.files import expand_home
from heed.languages import Direction, find_language, is_same_language
from heed.options import validated
from heed.progress import Advance, announced, reports_on_terminal

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class DatasetSource:
    """A split of a dataset."""

    dataset: "Dataset"  # memory-mapped
    name: str  # of the repository
    languages: tuple[str, str]  # columns of source and target, or fields of the column "translation"

    @property
    def size(self) -> int:
        return int(self.dataset.data.nbytes)

    def identity(self) -> tuple[Any, ...]:
        return "hub", self.name, dataset_digest(self.dataset), len(self.dataset), self.languages

    def blocks(self, advance: Advance) -> Iterator[Sentences]:
        dataset = self.dataset.flatten()
        columns = [self._column(language, dataset.features) for language in self.languages]
        sides = dataset.select_columns(columns).with_format("arrow")
        for rows in sides.iter(BLOCK):
            src, tgt = ([one_line(text or "") for text in rows[column].to_pylist()] for column in columns)
            yield Sentences(src, tgt)
            advance(self.size * len(src) // len(sides))

    def _column(self, language: str, features: Mapping[str, Any]) -> str:
        """Return the column named after a language, or the field of "translation" with this name."""
        columns = {name.removeprefix("translation."): name for name in features}
        column = columns.get(find_language(language, columns) or "")
        if column is None:
            raise HeedError(
                f"{self.name} has no column {language}: set data.src_lang and data.tgt_lang to two of "
                f"{', '.join(columns)}."
            )
        if (kind := getattr(features[column], "dtype", "nested")) not in ("string", "large_string"):
            raise HeedError(f"{self.name}, column {column} must hold text, but holds {kind} values.")
        return column


@validated("data.")
@dataclass(kw_only=True)
class HubCorpus(CorpusOptions):
    """A published corpus: from the Hugging Face hub, or from a folder of text files.

    conf/data/multi30k.yaml explains each option. ``repository`` may be the path of a local copy, or None. It has the
    columns ``src_lang`` and ``tgt_lang``, or a column "translation" with these fields.
    """

    name: str
    repository: str | None
    config: str | None
    revision: str | None
    splits: Mapping[str, str | None]
    root: str | None
    stems: Mapping[str, str | Mapping[str, str]]
    src_lang: str
    tgt_lang: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_same_language(self.src_lang, self.tgt_lang):
            given = f"data.src_lang={self.src_lang} and data.tgt_lang={self.tgt_lang}"
            raise HeedError(f"{given} are the same language: give two different languages.")

    def load(self) -> Corpus:
        """Read all splits and clean the training pairs.

        Raise a HeedError if the hub cannot be reached, or if a file of the folder is missing or invalid.
        """
        direction = Direction(self.src_lang, self.tgt_lang)
        train = Text([self._sources("train")["train"]], direction)
        valid = EvaluationSet(Sentences.read([self._sources("valid")["valid"]]), direction)
        tests = {n: EvaluationSet(Sentences.read([text]), direction) for n, text in self._sources("test").items()}
        return self.build(self.name, [train], [valid], tests)

    def _sources(self, split: str) -> dict[str, Source]:
        """Return the sets of a split by name: several only for test sets in a folder, none without a test set."""
        if self.splits[split] is None:
            return {}
        stems = self.stems[split]
        stems = {split: stems} if isinstance(stems, str) else stems
        first = next(iter(stems))
        src, tgt = self.src_lang, self.tgt_lang
        if self.root is not None:
            root = expand_home(self.root)
            files = {name: (root / f"{stem}.{src}", root / f"{stem}.{tgt}") for name, stem in stems.items()}
            found = {n: pair for n, pair in files.items() if n == first or all(map(Path.exists, pair))}
            return {n: FileSource(pair, read_text) for n, pair in found.items()}
        use_folder = f"set data.root=DIR to a folder with {stems[first]}.{src}, {stems[first]}.{tgt} and so on."
        if self.repository is None:
            raise HeedError(f"No hub repository of {self.name} separates its test set from training text: {use_folder}")
        try:
            return {split: self._load_split(self.repository, str(self.splits[split]))}
        except Exception as error:  # the class depends on the versions of several HTTP libraries
            # Keep all lines of the message: the second one names the configurations.
            reason = " ".join(str(error).split()) or type(error).__name__
            raise HeedError(
                f"{self.repository} could not be loaded from the Hugging Face hub ({reason:.300}): choose another "
                f"data.config or data.splits, or {use_folder}"
            ) from error

    def _load_split(self, repository: str, split: str) -> DatasetSource:
        """Return a split of the repository. It is downloaded once."""
        from datasets import config as settings
        from datasets import disable_progress_bars, load_dataset
        from datasets.exceptions import DatasetGenerationError
        from huggingface_hub import HfApi

        if not reports_on_terminal():
            disable_progress_bars()  # datasets would write its bars to a log file
        # Without network, load_dataset retries for a long time before it uses an earlier download or fails.
        download = Path(settings.HF_DATASETS_CACHE, repository.replace("/", "___"))
        is_local = download.is_dir() or Path(repository).is_dir()
        if not is_local:
            HfApi().dataset_info(repository, revision=self.revision, timeout=10)
        seconds = 0 if is_local else 60
        try:
            with announced("Loading from the Hugging Face hub", f"{repository}, {split}", expected_seconds=seconds):
                dataset = load_dataset(repository, self.config, split=split, revision=self.revision)
        except DatasetGenerationError as error:
            raise error.__cause__ or error from None
        return DatasetSource(dataset, repository, (self.src_lang, self.tgt_lang))
