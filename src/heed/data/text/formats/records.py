"""Files of records with both sides: JSONL, JSON, TSV and CSV."""

import csv
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from operator import itemgetter

from heed.data.text.formats.detect import ROWS, arrays_of_objects
from heed.data.text.formats.fields import RecordFile
from heed.data.text.formats.files import read_bytes, read_lines
from heed.data.text.source import Advance, Block
from heed.errors import HeedError, first_line
from heed.languages import find_language, named_language
from heed.progress import print_line

DEFAULT_NAMES = ("src", "tgt")
"""Defaults of data.src_field and data.tgt_field, see conf/data/files.yaml."""
SIDES = ({"src", "source"}, {"tgt", "trg", "target", "translation"})  # other names, in any case


@dataclass(frozen=True)
class JsonLines(RecordFile):
    """A JSONL file: one JSON object per line. Empty lines are skipped."""

    def blocks(self, advance: Advance) -> Iterator[Block]:
        lines = ((number, line) for number, line in enumerate(read_lines(self.file, advance), 1) if line.strip())
        return self.read_records("line", lines, lambda line: self.fields.values(json.loads(line)))


@dataclass(frozen=True)
class JsonFile(RecordFile):
    """A JSON array of objects, or an object with one array. It is read into memory."""

    def blocks(self, advance: Advance) -> Iterator[Block]:
        try:
            content = json.loads(b"".join(read_bytes(self.file, advance)))
        except (RecursionError, ValueError) as error:
            raise HeedError(f"{self.file} cannot be read as JSON: {first_line(error)}.") from error
        arrays = arrays_of_objects(content)
        if len(arrays) != 1:
            raise HeedError(
                f"{self.file} has {len(arrays)} arrays of objects instead of one: write an object per line to a file, "
                f"for instance: jq -c '.NAME[]' {shlex.quote(str(self.file))} > pairs.jsonl"
            )
        yield from self.read_records("object", enumerate(arrays[0], 1), self.fields.values)


@dataclass(frozen=True)
class TsvFile(RecordFile):
    """A table with tabs between columns and without quoting: one pair per line. Empty lines are skipped."""

    def blocks(self, advance: Advance) -> Iterator[Block]:
        rows = filter(itemgetter(1), self._rows(advance))
        if (first := next(rows, None)) is None:
            return
        indices, width, has_header = self._find_columns(*first)

        def values(row: Sequence[str]) -> list[str]:
            if len(row) <= max(indices):
                raise HeedError(
                    f"{len(row)} columns, but column {max(indices) + 1} is needed: check data.src_field, "
                    "data.tgt_field and data.score_field."
                )
            if width and any(row[width:]):  # part of a sentence may be in the next column
                raise HeedError(f"{len(row)} columns, but the first line has {width} (a separator inside a sentence?).")
            return [row[index] for index in indices]

        yield from self.read_records("line", rows if has_header else chain([first], rows), values)

    def _rows(self, advance: Advance) -> Iterator[tuple[int, list[str]]]:
        """Yield each row with the number of its first line. An empty row has no columns."""
        rows = (line.rstrip("\r") for line in read_lines(self.file, advance))
        return enumerate((self._split(row) if row else [] for row in rows), 1)

    def _split(self, row: str) -> list[str]:
        return row.split("\t")

    def _find_columns(self, line: int, header: Sequence[str]) -> tuple[tuple[int, ...], int, bool]:
        """Return the indices of the fields' columns, the maximum number of columns, and whether there is a header.

        The maximum is 0, for no limit, if the fields are column numbers. Instead of the default names, the languages
        may be column names; two columns without any are read as they are, and a line on stderr says so.
        """
        fields = self.fields.names
        if all(name.isdecimal() and int(name) > 0 for name in fields):
            return tuple(int(name) - 1 for name in fields), 0, False
        names = [name.strip() for name in header]
        if fields[:2] == DEFAULT_NAMES and not set(names) & set(DEFAULT_NAMES):
            codes = {code: name for name in names if (code := named_language(name))}
            asked = [codes.get(find_language(code, codes) or "", "") for code in self.fields.languages if code]
            by_word = [name for words in SIDES for name in names if name.casefold() in words]
            found = (sides for sides in (asked, by_word) if all(sides) and len(sides) == len({*sides}) == 2)
            fields = (*next(found, fields[:2]), *fields[2:])
            has_header = len(codes) + len(by_word) == 2
            if len(names) == 2 and fields == DEFAULT_NAMES and not (has_header and asked):
                kind = "a header" if has_header else "a pair"
                print_line(f"{self.file}: reading columns 1 and 2 as source and target, and line {line} as {kind}.")
                return (0, 1), 2, has_header
        if missing := [name for name in fields if name not in names]:
            columns = zip_longest(*(row for _, row in islice(self._rows(lambda _: None), ROWS)), fillvalue="")
            different_words = [len({*re.findall(r"[^\W\d_]+", " ".join(column))}) for column in columns] + [0, 0]
            src, tgt = sorted(sorted(range(len(different_words)), key=lambda n: -different_words[n])[:2])
            raise HeedError(
                f"{self.file}, line {line}: no column {missing[0]!r} (found: {', '.join(names)!s:.200}): set "
                "data.src_field and data.tgt_field (and data.score_field) to column names of the first line, or to "
                f"column numbers if there is no header: data.src_field={src + 1} data.tgt_field={tgt + 1}."
            )
        if repeated := [name for name in fields if names.count(name) > 1]:
            raise HeedError(
                f"{self.file}, line {line}: several columns are called {repeated[0]!r}: rename all but one, or delete "
                "this line and choose columns by number."
            )
        return tuple(map(names.index, fields)), len(names), True


@dataclass(frozen=True)
class BarsFile(TsvFile):
    """A table with ||| between columns, as of word aligners."""

    def _split(self, row: str) -> list[str]:
        return [cell.strip() for cell in row.split("|||")]


@dataclass(frozen=True)
class CsvFile(TsvFile):
    """A table with commas, or semicolons, between columns; quoted fields may contain these and line breaks."""

    def _rows(self, advance: Advance) -> Iterator[tuple[int, list[str]]]:
        lines = (f"{line}\n" for line in read_lines(self.file, advance))
        first = next(lines, "")
        has_semicolons = ";" in first and len(next(csv.reader([first]))) == 1  # as of Excel in many countries
        rows = csv.reader(chain([first], lines), strict=True, delimiter=";" if has_semicolons else ",")
        start = 1
        try:
            for row in rows:
                yield start, row
                start = rows.line_num + 1
        except csv.Error as error:
            raise HeedError(
                f"{self.file}, line {start:,}: {first_line(error)} (a quote that is not closed or not doubled?)."
            ) from error
