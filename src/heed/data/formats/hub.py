"""Datasets of the Hugging Face hub."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heed.compat import dataset_fingerprint
from heed.data.formats.fields import one_line
from heed.data.text import BLOCK, Advance, Block
from heed.errors import HeedError

if TYPE_CHECKING:
    from datasets import Dataset

TRANSLATION = "translation"
"""Column of WMT and OPUS datasets that holds a mapping from languages to sentences."""


@dataclass(frozen=True)
class DatasetSource:
    """A split of a dataset.

    Args:
        dataset: the split, memory-mapped.
        name: its repository.
        languages: columns of source and target, or fields of the column "translation".
    """

    dataset: "Dataset"
    name: str
    languages: tuple[str, str]

    @property
    def size(self) -> int:
        return int(self.dataset.data.nbytes)

    def identity(self) -> tuple[Any, ...]:
        return "hub", self.name, dataset_fingerprint(self.dataset), len(self.dataset), self.languages

    def blocks(self, advance: Advance) -> Iterator[Block]:
        dataset = self.dataset.flatten()
        columns = [self._column(language, dataset.features) for language in self.languages]
        sides = dataset.select_columns(columns).with_format("arrow")
        for rows in sides.iter(BLOCK):
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
                f"{self.name} has no column {language}: set data.src_lang and data.tgt_lang to two of "
                f"{', '.join(name.removeprefix(f'{TRANSLATION}.') for name in features)}."
            )
        if (kind := getattr(features[column], "dtype", "nested")) not in ("string", "large_string"):
            raise HeedError(f"{self.name}, column {column} must hold text, but holds {kind} values.")
        return column
