"""Files of records with both sides: JSONL, TSV and CSV.

A record of JSONL and TSV is a line, so large files are cut into parts. A CSV file is one part, because its fields may
have line breaks between quotes.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.data.formats.fields import BlockBuilder, Fields, explain
from heed.data.formats.identity import file_identity
from heed.data.formats.lines import LineRange, cut_file
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line
from heed.progress import print_line

DEFAULT_NAMES = ("src", "tgt")
"""The default of data.src_field and data.tgt_field, see conf/data/files.yaml."""


@dataclass(frozen=True)
class JsonLines:
    """A JSONL file: one JSON object per line. Empty lines are skipped."""

    file: Path
    fields: Fields

    def identity(self) -> tuple[Any, ...]:
        return "jsonl", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        return [JsonPart(lines, self.fields) for lines in cut_file(self.file)]


@dataclass(frozen=True)
class LinesPart:
    """Lines of a file with a record in each."""

    lines: LineRange
    fields: Fields

    @property
    def name(self) -> str:
        return self.lines.name

    @property
    def size(self) -> int:
        return self.lines.size


@dataclass(frozen=True)
class JsonPart(LinesPart):
    """Lines of a JSONL file."""

    def read(self, advance: Advance) -> Iterator[Block]:
        number = self.lines.first
        for lines in self.lines.read(advance):
            block = BlockBuilder(self.fields)
            for line in lines:
                number += 1
                if line.strip():
                    try:
                        block.add(json.loads(line))
                    except (ValueError, KeyError, RecursionError) as error:
                        raise HeedError(f"{self.lines.file}, line {number:,}: {explain(error)}") from error
            yield block.block()


@dataclass(frozen=True)
class TsvFile:
    """A table with tabs between columns and without quotes: one pair per line. Empty lines are skipped."""

    file: Path
    fields: Fields

    def identity(self) -> tuple[Any, ...]:
        return "tsv", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        header = next((block[0].split("\t") for block in LineRange(self.file).read(lambda _: None)), [])
        columns = find_columns(self.file, header, self.fields)
        return [TsvPart(lines, self.fields, columns) for lines in cut_file(self.file)]


@dataclass(frozen=True)
class Columns:
    """Where the fields of a table are.

    Args:
        indices: of source, target and score.
        header: number of columns that the first line names; None: there is no such line.
    """

    indices: tuple[int, ...]
    header: int | None


def find_columns(file: Path, header: Sequence[str], fields: Fields) -> Columns:
    """Return the columns of a table: by number, or by the names in the first line.

    A table of two columns that has neither of the default names is read as source and target, with a line that says so.

    Raises:
        HeedError: if there is no column of this name.
    """
    if all(name.isdecimal() and int(name) > 0 for name in fields.names):
        return Columns(tuple(int(name) - 1 for name in fields.names), header=None)
    names = [name.strip() for name in header]
    if len(names) == 2 and fields.names == DEFAULT_NAMES and not set(names) & set(DEFAULT_NAMES):
        print_line(f"{file}: no column is called src or tgt, so its two columns are source and target from line 1 on.")
        return Columns((0, 1), header=None)
    if missing := [name for name in fields.names if name not in names]:
        raise HeedError(
            f"{file}, line 1: no column {missing[0]!r} (found: {', '.join(names)!s:.200}): set data.src_field and "
            "data.tgt_field (and data.score_field) to column names of the first line, or to column numbers such as 1 "
            "and 2 if the first line is no header."
        )
    if repeated := [name for name in fields.names if names.count(name) > 1]:
        raise HeedError(
            f"{file}, line 1: several columns are called {repeated[0]!r}: rename all but one, or delete this line and "
            "choose columns by their numbers."
        )
    return Columns(tuple(names.index(name) for name in fields.names), header=len(names))


@dataclass(frozen=True)
class TsvPart(LinesPart):
    """Lines of a TSV file."""

    columns: Columns

    def read(self, advance: Advance) -> Iterator[Block]:
        number = self.lines.first
        for lines in self.lines.read(advance):
            block = BlockBuilder(self.fields)
            for line in lines:
                number += 1
                if (row := line.rstrip("\r")) and not (number == 1 and self.columns.header):
                    add_row(block, row.split("\t"), self.columns, self.lines.file, number)
            yield block.block()


def add_row(block: BlockBuilder, row: Sequence[str], columns: Columns, file: Path, number: int) -> None:
    """Add a row of a table to a block.

    Raises:
        HeedError: naming the line, if the row has too few or too many columns or the score is not a number.
    """
    if len(row) <= max(columns.indices):
        raise HeedError(
            f"{file}, line {number:,}: {len(row)} columns, but column {max(columns.indices) + 1} is needed "
            "(data.src_field, data.tgt_field and data.score_field choose the columns)."
        )
    if (
        columns.header and len(row) > columns.header and any(row[columns.header :])
    ):  # part of a sentence may be in the wrong column
        raise HeedError(
            f"{file}, line {number:,}: {len(row)} columns, but the first line names {columns.header} (a separator "
            "inside a sentence?)."
        )
    try:
        block.add_values(*(row[index] for index in columns.indices))
    except (KeyError, ValueError) as error:
        raise HeedError(f"{file}, line {number:,}: {explain(error)}") from error


@dataclass(frozen=True)
class CsvFile:
    """A table with commas between columns; quoted fields may contain commas and line breaks."""

    file: Path
    fields: Fields

    @property
    def name(self) -> str:
        return str(self.file)

    @property
    def size(self) -> int:
        return self.file.stat().st_size

    def identity(self) -> tuple[Any, ...]:
        return "csv", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        file_identity(self.file)
        return [self]

    def read(self, advance: Advance) -> Iterator[Block]:
        columns, start = None, 1
        block = BlockBuilder(self.fields)
        rows = csv.reader(self._lines(advance), strict=True)
        try:
            for row in rows:
                if columns is None and (columns := find_columns(self.file, row, self.fields)).header:
                    start = rows.line_num + 1
                    continue
                if row:
                    add_row(block, row, columns, self.file, start)
                start = rows.line_num + 1
                if len(block.src) == BLOCK:
                    yield block.block()
                    block = BlockBuilder(self.fields)
        except csv.Error as error:
            raise HeedError(
                f"{self.file}, line {start:,}: {first_line(error)} (a quote that is not closed or not doubled?)."
            ) from error
        yield block.block()

    def _lines(self, advance: Advance) -> Iterator[str]:
        """Yield the lines with their ends, which quoted fields may contain."""
        for lines in LineRange(self.file).read(advance):
            for line in lines:
                yield f"{line}\n"
