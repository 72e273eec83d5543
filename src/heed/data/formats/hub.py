"""Text of datasets of the Hugging Face hub."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.data.formats.lines import one_line
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line
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
        raise HeedError(
            f"{repository} could not be loaded from the Hugging Face hub ({first_line(error)}): {otherwise}"
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
        return "hub", self.repository, self.dataset._fingerprint, len(self.dataset), self.languages

    def parts(self) -> Sequence[Part]:
        features = self.dataset.features
        is_nested = TRANSLATION in features and not set(self.languages) <= set(features)
        if not is_nested:
            if missing := sorted(set(self.languages) - set(features)):
                raise HeedError(
                    f"{self.repository} has no column {' or '.join(missing)}: "
                    f"set data.src_lang and data.tgt_lang to two of {', '.join(features)}."
                )
            for column in self.languages:
                if (kind := getattr(features[column], "dtype", "nested")) not in ("string", "large_string"):
                    raise HeedError(f"{self.repository}, column {column}: it holds {kind} values but must hold text.")
        starts = range(0, len(self.dataset), PART)
        return [DatasetPart(self, start, min(start + PART, len(self.dataset)), is_nested) for start in starts]


@dataclass(frozen=True)
class DatasetPart:
    """Consecutive rows of a split.

    Args:
        source: the split.
        start, stop: the rows.
        is_nested: whether the sentences are in the column "translation".
    """

    source: DatasetSource
    start: int
    stop: int
    is_nested: bool

    @property
    def name(self) -> str:
        return f"{self.source.repository}, rows {self.start + 1:,} to {self.stop:,}"

    @property
    def size(self) -> int:
        dataset = self.source.dataset
        return max(1, int(dataset.data.nbytes * (self.stop - self.start) / len(dataset)))

    def read(self, advance: Advance) -> Iterator[Block]:
        done = 0
        for start in range(self.start, self.stop, BLOCK):
            stop = min(start + BLOCK, self.stop)
            rows = self.source.dataset[start:stop]
            src, tgt = (self._column(rows, language, start) for language in self.source.languages)
            yield Block(src, tgt)
            advanced = self.size * (stop - self.start) // (self.stop - self.start)
            advance(advanced - done)
            done = advanced

    def _column(self, rows: Mapping[str, list[Any]], language: str, first: int) -> list[str]:
        if not self.is_nested:
            return [one_line(text or "") for text in rows[language]]
        texts = []
        for row, translation in enumerate(rows[TRANSLATION]):
            if language not in translation:
                raise HeedError(
                    f"{self.source.repository}, row {first + row + 1:,}: no translation into {language!r} (found: "
                    f"{', '.join(translation)}): set data.src_lang and data.tgt_lang."
                )
            texts.append(one_line(translation[language] or ""))
        return texts
