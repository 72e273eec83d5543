"""Records whose fields hold the source, the target and the score."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from heed.data.formats.files import file_identity, file_size
from heed.data.text import BLOCK, Block
from heed.errors import HeedError

Record = TypeVar("Record")


@dataclass(frozen=True)
class Fields:
    """The fields of a file with both sides.

    Args:
        src, tgt: names of the fields, or in a TSV or CSV file without header their numbers from 1 ("1", "2").
            "translation.de" is a field of a nested mapping.
        score: field of the score; None: there is none.
        languages: language codes of source and target, which choose the sides of a TMX file.
    """

    src: str
    tgt: str
    score: str | None = None
    languages: tuple[str | None, str | None] = (None, None)

    @property
    def names(self) -> tuple[str, ...]:
        """All fields that are read."""
        return (self.src, self.tgt) if self.score is None else (self.src, self.tgt, self.score)

    def values(self, record: Any) -> list[Any]:
        """Return the values of the fields in nested mappings.

        Raises:
            HeedError: if there is no such field.
        """
        return [_get_field(record, name) for name in self.names]

    def check(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of the fields as they are stored: sentences of one line, and a number.

        Raises:
            ValueError: if one is not text or not a number, or has a lone surrogate.
        """
        src, tgt, *scores = values
        for name, value in ((self.src, src), (self.tgt, tgt)):
            if not isinstance(value, str):
                raise HeedError(f"field {name!r} is {value!r:.40}, which is not text.")
            value.encode()  # a lone surrogate, which JSON can contain, raises UnicodeEncodeError
        return [one_line(src), one_line(tgt), *(_parse_score(score, str(self.score)) for score in scores)]


@dataclass(frozen=True)
class RecordFile:
    """A file of records with both sides."""

    file: Path
    fields: Fields

    @property
    def name(self) -> str:
        return str(self.file)

    @property
    def size(self) -> int:
        return file_size(self.file)

    def identity(self) -> tuple[Any, ...]:
        return type(self).__name__, file_identity(self.file), self.fields


def one_line(text: str) -> str:
    """Return the text without a line end, and with a space for every line break inside."""
    return text.rstrip("\r\n").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def read_records(
    records: Iterable[tuple[int, Record]],
    parse: Callable[[Record], Sequence[Any] | None],
    fields: Fields,
    *,
    where: str,
) -> Iterator[Block]:
    """Yield the pairs of records.

    Args:
        records: their numbers, for messages, and their content.
        parse: returns the values of the fields of a record, or None for one that is skipped. It may raise ValueError.
        where: what is numbered: "a.tsv, line".

    Raises:
        HeedError: naming the record that is invalid.
    """
    rows: list[list[Any]] = []
    for number, record in records:
        try:
            values = parse(record)
            if values is not None:
                rows.append(fields.check(values))
        except RecursionError as error:
            raise HeedError(f"{where} {number:,}: the JSON value is nested too deeply.") from error
        except ValueError as error:
            raise HeedError(f"{where} {number:,}: {' '.join(str(error).split())}") from error
        if len(rows) == BLOCK:
            yield Block(*map(list, zip(*rows, strict=True)))
            rows = []
    if rows:
        yield Block(*map(list, zip(*rows, strict=True)))


def _get_field(record: Any, field: str) -> Any:
    """Return the value at a dotted path in nested mappings."""
    value = record
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            found = f"{', '.join(map(str, value)):.200}" if isinstance(value, Mapping) else f"{value!r:.40}"
            raise HeedError(
                f"no field {field!r} (found: {found}); data.src_field, data.tgt_field and data.score_field choose the "
                "fields."
            )
        value = value[key]
    return value


def _parse_score(value: Any, field: str) -> float:
    """Return a score. A missing one is NaN, which is below every threshold."""
    try:
        return math.nan if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        raise HeedError(f"field {field!r} is {value!r:.40}, which is not a number.") from None
