"""Inputs: each format as a source of parallel text that is cut into parts."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from heed.data.formats.compression import DAMAGED, find_compression, opened
from heed.data.formats.fields import BlockBuilder, Fields, explain
from heed.data.formats.lines import (
    LineRange,
    cut_file,
    cut_files,
    different_lengths,
    one_line,
)
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line


def file_identity(*files: Path) -> tuple[Any, ...]:
    """Return paths, sizes and times of files: as long as they are the same, the content is assumed to be.

    Raises:
        HeedError: if a file is missing or is not a regular file.
    """
    for file in files:
        find_compression(file)
    return tuple((str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files)


# ---- pairs of text files


@dataclass(frozen=True)
class TextFiles:
    """Two text files with one sentence per line."""

    src: Path
    tgt: Path

    def identity(self) -> tuple[Any, ...]:
        return "text", file_identity(self.src, self.tgt)

    def parts(self) -> Sequence[Part]:
        file_identity(self.src, self.tgt)
        if self.src.samefile(self.tgt):
            raise HeedError(
                f"{self.src} is given for both sides: give a source file and a target file, or one table with both "
                "columns as '[table.tsv]' (to train on identical sides on purpose, give a copy of the file)."
            )
        return [TextPart(src, tgt) for src, tgt in cut_files(self.src, self.tgt)]


@dataclass(frozen=True)
class TextPart:
    """The same lines of two text files."""

    src: LineRange
    tgt: LineRange

    @property
    def name(self) -> str:
        return f"{self.src.name} and {self.tgt.file}"

    @property
    def size(self) -> int:
        return self.src.size + self.tgt.size

    def read(self, advance: Advance) -> Iterator[Block]:
        src_lines, tgt_lines = self.src.first, self.tgt.first
        src: list[str]
        tgt: list[str]
        for src, tgt in zip_longest(self.src.read(advance), self.tgt.read(advance), fillvalue=[]):
            src_lines, tgt_lines = src_lines + len(src), tgt_lines + len(tgt)
            if len(src) == len(tgt):
                yield Block([one_line(text) for text in src], [one_line(text) for text in tgt])
        if src_lines != tgt_lines:
            raise different_lengths(self.src.file, src_lines, self.tgt.file, tgt_lines)


# ---- JSONL and TSV: a record per line


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
class JsonPart:
    """Lines of a JSONL file."""

    lines: LineRange
    fields: Fields

    @property
    def name(self) -> str:
        return self.lines.name

    @property
    def size(self) -> int:
        return self.lines.size

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

    Raises:
        HeedError: if there is no column of this name.
    """
    if all(name.isdecimal() and int(name) > 0 for name in fields.names):
        return Columns(tuple(int(name) - 1 for name in fields.names), header=None)
    names = [name.strip() for name in header]
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
class TsvPart:
    """Lines of a TSV file."""

    lines: LineRange
    fields: Fields
    columns: Columns

    @property
    def name(self) -> str:
        return self.lines.name

    @property
    def size(self) -> int:
        return self.lines.size

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


# ---- CSV: quoted fields may have line breaks, so the file is one part


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


# ---- parquet


@dataclass(frozen=True)
class ParquetFile:
    """A parquet file."""

    file: Path
    fields: Fields

    def identity(self) -> tuple[Any, ...]:
        return "parquet", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        file_identity(self.file)
        try:
            # An open file, because Arrow opens only UTF-8 paths.
            with self.file.open("rb") as stream, pq.ParquetFile(stream) as table:
                groups = [table.metadata.row_group(number) for number in range(table.num_row_groups)]
                sizes = [(group.num_rows, group.total_byte_size) for group in groups]
        except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
            raise HeedError(f"{self.file} cannot be read as parquet: {first_line(error)} (a damaged file?).") from error
        first, parts = 0, []
        for number, (rows, size) in enumerate(sizes):
            parts.append(ParquetPart(self.file, self.fields, [number], first, size))
            first += rows
        return parts or [ParquetPart(self.file, self.fields, [], 0, 0)]


@dataclass(frozen=True)
class ParquetPart:
    """A row group of a parquet file, or an empty file.

    Args:
        groups: its number.
        first: rows before it.
        size: bytes.
    """

    file: Path
    fields: Fields
    groups: Sequence[int]
    first: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.file} from row {self.first + 1:,}" if self.first else str(self.file)

    def read(self, advance: Advance) -> Iterator[Block]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        number = self.first
        try:
            # Checksums are verified if the file contains them.
            with self.file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
                roots = {name.split(".")[0] for name in self.fields.names}
                columns = [name for name in table.schema_arrow.names if name in roots]
                for batch in table.iter_batches(BLOCK, row_groups=self.groups, columns=columns):
                    block = BlockBuilder(self.fields)
                    for record in batch.to_pylist():
                        number += 1
                        block.add(record)
                    yield block.block()
        except KeyError as error:  # from the fields; Arrow raises several other classes
            raise HeedError(f"{self.file}, row {number:,}: {explain(error)}") from error
        except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
            raise HeedError(
                f"{self.file} cannot be read as parquet: {explain(error)} (a damaged file? Rows read so far: "
                f"{number:,})."
            ) from error
        advance(self.size)


# ---- TMX: translation memories


@dataclass(frozen=True)
class TmxFile:
    """A translation memory (TMX 1.4). Units without both languages are skipped, and so are formatting codes.

    It has no scores.
    """

    file: Path
    fields: Fields

    @property
    def name(self) -> str:
        return str(self.file)

    @property
    def size(self) -> int:
        return self.file.stat().st_size

    def identity(self) -> tuple[Any, ...]:
        return "tmx", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        file_identity(self.file)
        if None in self.fields.languages:
            raise HeedError(f"{self.file}: a TMX file may have many languages: set data.src_lang and data.tgt_lang.")
        return [self]

    def read(self, advance: Advance) -> Iterator[Block]:
        from xml.parsers import expat

        units = _TmxUnits()
        fields = replace(self.fields, score=None)
        block, position, found = BlockBuilder(fields), 0, False
        with opened(self.file) as (content, disk):
            try:
                while chunk := content.read(2**20):
                    units.feed(chunk)
                    for unit in units.take():
                        if pair := _find_pair(unit, self.fields.languages):
                            block.add_values(*pair)
                            found = True
                    if len(block.src) >= BLOCK:
                        yield block.block()
                        block = BlockBuilder(fields)
                    advance(disk.tell() - position)
                    position = disk.tell()
                units.close()
            except (expat.ExpatError, ValueError, LookupError, *DAMAGED) as error:
                raise HeedError(f"{self.file} cannot be read as TMX: {first_line(error)}.") from error
        if not found:
            src, tgt = self.fields.languages
            known = ", ".join(sorted(units.languages)) or "none"
            raise HeedError(f"{self.file} has no unit in both {src} and {tgt} (its languages: {known}).")
        yield block.block()


def _find_pair(unit: Sequence[tuple[str, str]], languages: Sequence[str | None]) -> list[str] | None:
    """Return the texts of a unit in two languages; None if it lacks one of them."""
    codes = [_normal_code(code) for code, _ in unit]
    src, tgt = (_find_language(codes, _normal_code(str(language))) for language in languages)
    return None if src is None or tgt is None or src == tgt else [unit[src][1], unit[tgt][1]]


def _find_language(codes: Sequence[str], wanted: str) -> int | None:
    """Return where a language is: "en", or otherwise a variant of it such as "en-us"."""
    if wanted in codes:
        return codes.index(wanted)
    return next((index for index, code in enumerate(codes) if code.split("-")[0] == wanted), None)


def _normal_code(code: str) -> str:
    return code.lower().replace("_", "-")


class _TmxUnits:
    """Collects the translation units of a TMX file as lists of (language, text)."""

    CODES = ("bpt", "ept", "ph", "it", "ut", "sub")
    """Elements in a sentence that are not text."""

    def __init__(self) -> None:
        from xml.parsers import expat

        self.languages: set[str] = set()
        self._units: list[list[tuple[str, str]]] = []
        self._unit: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None
        self._codes = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse_declaration
        self._parser.SkippedEntityHandler = self._refuse_entity

    def feed(self, chunk: bytes) -> None:
        """Parse more of the file."""
        self._parser.Parse(chunk, False)

    def close(self) -> None:
        """Parse the end of the file."""
        self._parser.Parse(b"", True)

    def take(self) -> list[list[tuple[str, str]]]:
        """Return the units that were completed since the last call."""
        units, self._units = self._units, []
        return units

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = []
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
            self.languages.add(self._language)
        elif name == "seg":
            self._text = []
        elif name in self.CODES:
            self._codes += 1

    def _end(self, name: str) -> None:
        if name == "seg" and self._text is not None:
            self._unit.append((self._language, "".join(self._text).strip()))
            self._text = None
        elif name == "tu":
            self._units.append(self._unit)
        elif name in self.CODES:
            self._codes -= 1

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)

    def _refuse_entity(self, name: str, *_: Any) -> None:
        # The DTD that declares it is not read. Without this handler, expat leaves the character out.
        raise ValueError(f"the entity &{name}; in line {self._parser.CurrentLineNumber:,} is unknown")

    def _refuse_declaration(self, *_: Any) -> None:
        # A few nested entities can expand to gigabytes.
        raise ValueError("it declares entities, which a translation memory does not need: remove its DOCTYPE")
