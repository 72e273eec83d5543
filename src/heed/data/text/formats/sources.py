"""Files of pairs: two text files, or one file with records whose fields hold source, target and score."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, starmap
from pathlib import Path
from typing import Any, TypeVar

from heed.data.text.formats.files import find_compression, one_line, read_lines
from heed.data.text.source import BLOCK, Sentences
from heed.errors import HeedError
from heed.progress import Advance

Record = TypeVar("Record")


@dataclass(frozen=True)
class Fields:
    """The fields of a file with both sides: names, or column numbers from 1 in a table without header ("1", "2").

    "translation.de" is a field of a nested mapping.
    """

    src: str
    tgt: str
    score: str | None = None
    languages: tuple[str | None, str | None] = (None, None)  # of source and target, to select the sides of a TMX file

    @property
    def names(self) -> tuple[str, ...]:
        """All fields to read."""
        return (self.src, self.tgt) if self.score is None else (self.src, self.tgt, self.score)

    def values(self, record: Any) -> list[Any]:
        """Return the values of the fields in nested mappings, or raise a HeedError if there is no such field."""
        return [_get_field(record, name) for name in self.names]

    def check(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of the fields as single-line sentences and a number.

        Raise a ValueError if a sentence is not text or has a lone surrogate, or the score is not a number.
        """
        src, tgt, *scores = values
        for name, value in ((self.src, src), (self.tgt, tgt)):
            if not isinstance(value, str):
                raise HeedError(f"field {name!r} is not text: {value!r:.40}.")
            value.encode()  # raises UnicodeEncodeError for a lone surrogate, as JSON may contain
        try:
            # A missing score is NaN and fails every threshold.
            numbers = [math.nan if score is None or score == "" else float(score) for score in scores]
        except (TypeError, ValueError):
            raise HeedError(f"field {self.score!r} is not a number: {scores[0]!r:.40}.") from None
        return [one_line(src), one_line(tgt), *numbers]


@dataclass(frozen=True)
class FileSource:
    """A `heed.data.text.source.Source`: two files with one side each, or one file with both sides.

    ``size`` and ``identity`` raise a HeedError if a file cannot be read, see `find_compression`.
    """

    files: tuple[Path, ...]
    read: Callable[["FileSource", Advance], Iterator[Sentences]]  # the reader of the format, such as `read_tsv`
    fields: Fields = Fields("src", "tgt")  # of a file with both sides

    @property
    def name(self) -> str:
        return " and ".join(map(str, self.files))

    @property
    def file(self) -> Path:
        """The only file."""
        return self.files[0]

    @property
    def size(self) -> int:
        return sum(status.st_size for status in self._status())

    def identity(self) -> tuple[Any, ...]:
        """If paths, sizes and modification times are equal, the content is assumed to be equal."""
        found = zip(self.files, self._status(), strict=True)
        facts = ((str(file.resolve()), status.st_size, status.st_mtime_ns) for file, status in found)
        return self.read.__name__, *facts, self.fields

    def _status(self) -> list[os.stat_result]:
        for file in self.files:
            find_compression(file)
        return [file.stat() for file in self.files]

    def blocks(self, advance: Advance) -> Iterator[Sentences]:
        return self.read(self, advance)

    def read_records(
        self, unit: str, records: Iterable[tuple[int, Record]], parse: Callable[[Record], Sequence[Any] | None]
    ) -> Iterator[Sentences]:
        """Yield the pairs of records, or raise a HeedError that names the invalid one.

        Args:
            unit: name of a record in messages, such as "line".
            records: number, for messages, and content of each record.
            parse: returns the values of a record's fields, or None to skip the record. It may raise ValueError.
        """

        def checked(number: int, record: Record) -> list[Any] | None:
            try:
                values = parse(record)
                return None if values is None else self.fields.check(values)
            except (RecursionError, ValueError) as error:
                is_deep = isinstance(error, RecursionError)
                reason = "the JSON value is nested too deeply." if is_deep else " ".join(str(error).split())
                raise HeedError(f"{self.file}, {unit} {number:,}: {reason}") from error

        rows = filter(None, starmap(checked, records))
        while block := list(islice(rows, BLOCK)):
            src, tgt, *scores = map(list, zip(*block, strict=True))
            yield Sentences(src, tgt, scores=scores[0] if scores else None)


def read_text(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a source and a target file with one sentence per line."""
    src_file, tgt_file = source.files
    if src_file.samefile(tgt_file):
        raise HeedError(
            f"{src_file} is given for both sides: give a source file and a target file, or one table with both "
            "columns as '[table.tsv]' (to train on identical sides, give a copy of the file)."
        )
    sides = [read_lines(file, advance) for file in source.files]
    count = 0
    while True:
        src, tgt = ([one_line(line) for line in islice(side, BLOCK)] for side in sides)
        if len(src) != len(tgt):
            lines = [count + len(own) + sum(1 for _ in side) for own, side in zip((src, tgt), sides, strict=True)]
            raise HeedError(
                f"{src_file} has {lines[0]:,} lines and {tgt_file} {lines[1]:,}: line n of one file must be the "
                f"translation of line n of the other."
            )
        if not src:
            return
        yield Sentences(src, tgt)
        count += len(src)


def _get_field(record: Any, field: str) -> Any:
    """Return the value at a dotted path in nested mappings."""
    value = record
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            found = f"{', '.join(map(str, value)):.200}" if isinstance(value, Mapping) else f"{value!r:.40}"
            raise HeedError(
                f"no field {field!r} (found: {found}): set data.src_field, data.tgt_field and data.score_field to "
                "existing fields."
            )
        value = value[key]
    return value
