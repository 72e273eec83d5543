"""Read datasets of the Hugging Face hub."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.compat import dataset_fingerprint
from heed.data.formats.fields import one_line
from heed.data.text import BLOCK, Advance, Block
from heed.errors import HeedError
from heed.progress import announced, reports_on_terminal

if TYPE_CHECKING:
    from datasets import Dataset

TRANSLATION = "translation"
"""Column of WMT and OPUS datasets that holds a mapping from languages to sentences."""


def load_split(repository: str, split: str, *, config: str | None, revision: str | None, otherwise: str) -> "Dataset":
    """Return a split of a dataset. It is downloaded once.

    Args:
        repository: a hub repository, or the path of a local copy.
        config: configuration; None: the only one.
        revision: commit; None: the newest.
        otherwise: advice for the error message: what to do if the hub cannot be reached.

    Raises:
        HeedError: if it cannot be loaded.
    """
    from datasets import config as settings
    from datasets import disable_progress_bars, load_dataset
    from datasets.exceptions import DatasetGenerationError
    from huggingface_hub import HfApi

    if not reports_on_terminal():
        disable_progress_bars()  # datasets would write its bars to a log file
    try:
        # Without network, load_dataset retries for a long time before it uses an earlier download or fails.
        download = Path(settings.HF_DATASETS_CACHE, repository.replace("/", "___"))
        is_local = download.is_dir() or Path(repository).is_dir()
        if not is_local:
            HfApi().dataset_info(repository, revision=revision, timeout=10)
        with announced(
            "Loading from the Hugging Face hub", f"{repository}, {split}", expected_seconds=0 if is_local else 60
        ):
            return load_dataset(repository, config, split=split, revision=revision)
    except Exception as error:  # the class depends on the versions of several HTTP libraries
        cause = error.__cause__ if isinstance(error, DatasetGenerationError) and error.__cause__ else error
        # Keep all lines of the message: the second one names the configurations.
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise HeedError(
            f"{repository} could not be loaded from the Hugging Face hub ({reason:.300}): choose another data.config "
            f"or data.splits, or {otherwise}"
        ) from error


@dataclass(frozen=True)
class DatasetSource:
    """A split of a dataset.

    Args:
        dataset: the split, memory-mapped.
        repository: name of the dataset.
        languages: columns of source and target, or fields of the column "translation".
    """

    dataset: "Dataset"
    repository: str
    languages: tuple[str, str]

    @property
    def name(self) -> str:
        return self.repository

    @property
    def size(self) -> int:
        return int(self.dataset.data.nbytes)

    def identity(self) -> tuple[Any, ...]:
        return "hub", self.repository, dataset_fingerprint(self.dataset), len(self.dataset), self.languages

    def blocks(self, advance: Advance) -> Iterator[Block]:
        dataset = self.dataset.flatten()
        columns = [self._column(language, dataset.features) for language in self.languages]
        sides = dataset.select_columns(columns).with_format("arrow")
        for first in range(0, len(sides), BLOCK):
            rows = sides[first : first + BLOCK]
            src, tgt = ([one_line(text or "") for text in rows[column].to_pylist()] for column in columns)
            yield Block(src, tgt)
            advance(self.size * len(src) // len(sides))

    def _column(self, language: str, features: Mapping[str, Any]) -> str:
        """Return the column named after a language, or the field of "translation" with this name.

        Raises:
            HeedError: if there is no such column, or it does not hold text.
        """
        column = language if language in features else f"{TRANSLATION}.{language}"
        if column not in features:
            raise HeedError(
                f"{self.repository} has no column {language}: set data.src_lang and data.tgt_lang to two of "
                f"{', '.join(name.removeprefix(f'{TRANSLATION}.') for name in features)}."
            )
        if (kind := getattr(features[column], "dtype", "nested")) not in ("string", "large_string"):
            raise HeedError(f"{self.repository}, column {column} must hold text, but holds {kind} values.")
        return column
