"""Datasets of the Hugging Face hub."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.compat import dataset_fingerprint
from heed.data.formats.fields import Fields, read_records
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError
from heed.progress import announced, reports_on_terminal

if TYPE_CHECKING:
    from datasets import Dataset

PART = 250_000
"""Rows of a part."""

TRANSLATION = "translation"
"""Column whose fields are the sentences by language, in the datasets of WMT and OPUS."""


def load_split(repository: str, split: str, *, config: str | None, revision: str | None, otherwise: str) -> "Dataset":
    """Return a split of a dataset, downloaded unless it has been before.

    Args:
        repository: of the hub, or the path of a local copy.
        config: configuration; None: the only one.
        revision: commit; None: the newest.
        otherwise: what the user can do if the hub cannot be reached, for the message.

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
        # Without network, load_dataset retries for long before it looks for an earlier download or fails.
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
        # All lines of the message, because only the second one names the configurations to choose from.
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
        repository: its name.
        languages: columns of source and target, or fields of the column "translation".
    """

    dataset: "Dataset"
    repository: str
    languages: tuple[str, str]

    def identity(self) -> tuple[Any, ...]:
        return "hub", self.repository, dataset_fingerprint(self.dataset), len(self.dataset), self.languages

    def parts(self) -> Sequence[Part]:
        columns = self._columns()
        rows, size = len(self.dataset), self.dataset.data.nbytes
        bounds = [(start, min(start + PART, rows)) for start in range(0, rows, PART)]
        return [
            Part(
                f"{self.repository}, rows {start + 1:,} to {stop:,}",
                max(1, size * (stop - start) // rows),
                partial(self._read, columns, start, stop),
            )
            for start, stop in bounds
        ]

    def _columns(self) -> list[str]:
        """Return the columns to read.

        Raises:
            HeedError: if there are none of these languages, or they do not hold text.
        """
        features = self.dataset.features
        missing = sorted(set(self.languages) - set(features))
        if missing and TRANSLATION in features:
            return [TRANSLATION]
        if missing:
            raise HeedError(
                f"{self.repository} has no column {' or '.join(missing)}: set data.src_lang and data.tgt_lang to two "
                f"of {', '.join(features)}."
            )
        for column in self.languages:
            if (kind := getattr(features[column], "dtype", "nested")) not in ("string", "large_string"):
                raise HeedError(f"{self.repository}, column {column}: it holds {kind} values but must hold text.")
        return list(self.languages)

    def _read(self, columns: list[str], start: int, stop: int, advance: Advance) -> Iterator[Block]:
        dataset = self.dataset.select_columns(columns).with_format("arrow")
        row_bytes = self.dataset.data.nbytes / len(self.dataset)

        def rows() -> Iterator[tuple[int, dict[str, Any]]]:
            for first in range(start, stop, BLOCK):
                block = dataset[first : min(first + BLOCK, stop)].to_pylist()
                yield from enumerate(block, first + 1)
                advance(int(row_bytes * len(block)))

        parse = self._translations if columns == [TRANSLATION] else self._sides
        return read_records(rows(), parse, Fields(*self.languages), where=f"{self.repository}, row")

    def _translations(self, row: Mapping[str, Any]) -> list[Any]:
        found = row[TRANSLATION]
        for language in self.languages:
            if not isinstance(found, Mapping) or language not in found:
                names = ", ".join(found) if isinstance(found, Mapping) else f"{found!r:.40}"
                raise HeedError(
                    f"no translation into {language!r} (found: {names}): set data.src_lang and data.tgt_lang."
                )
        return self._sides(found)

    def _sides(self, row: Mapping[str, Any]) -> list[Any]:
        return ["" if row[language] is None else row[language] for language in self.languages]
