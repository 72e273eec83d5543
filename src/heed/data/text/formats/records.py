"""Files of records with both sides: JSONL, JSON, parquet, TSV, CSV and TMX."""

import csv
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from heed.data.text.formats.files import arrays_of_objects, read_bytes, read_lines
from heed.data.text.formats.sources import FileSource
from heed.data.text.source import BLOCK, Sentences
from heed.errors import HeedError, first_line
from heed.languages import find_language, named_language
from heed.progress import Advance, print_line

DEFAULT_NAMES = ("src", "tgt")
"""Defaults of data.src_field and data.tgt_field, see conf/data/files.yaml."""
Row = tuple[int, list[str]]
"""The number of a row's first line, and its columns. An empty row has none."""
SIDES = ({"src", "source"}, {"tgt", "trg", "target", "translation"})  # other names, in any case
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"  # an attribute of TMX
CODES = ("bpt", "ept", "ph", "it", "ut", "sub")  # formatting codes: elements in a sentence that are not text


def read_json_lines(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a JSONL file: one JSON object per line. Empty lines are skipped."""
    lines = ((number, line) for number, line in enumerate(read_lines(source.file, advance), 1) if line.strip())
    return source.read_records("line", lines, lambda line: source.fields.values(json.loads(line)))


def read_json(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a JSON array of objects, or an object with one array, into memory."""
    try:
        content = json.loads(b"".join(read_bytes(source.file, advance)))
    except (RecursionError, ValueError) as error:
        raise HeedError(f"{source.file} cannot be read as JSON: {first_line(error)}.") from error
    arrays = arrays_of_objects(content)
    if len(arrays) != 1:
        raise HeedError(
            f"{source.file} has {len(arrays)} arrays of objects instead of one: write an object per line to a file, "
            f"for instance: jq -c '.NAME[]' {shlex.quote(str(source.file))} > pairs.jsonl"
        )
    return source.read_records("object", enumerate(arrays[0], 1), source.fields.values)


def read_parquet(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def rows(table: Any) -> Iterator[tuple[int, Any]]:
        roots = {name.split(".")[0] for name in source.fields.names}
        # With a wrong name, all columns are read, so that the message names them.
        columns = sorted(roots) if roots <= {*table.schema_arrow.names} else None
        size, count, done = source.size, table.metadata.num_rows, 0
        for batch in table.iter_batches(BLOCK, columns=columns):
            yield from enumerate(batch.to_pylist(), done + 1)
            advance(size * (done + len(batch)) // count - size * done // count)
            done += len(batch)

    try:
        # Arrow opens only UTF-8 paths, so Python opens the file. Checksums are verified if the file has them.
        with source.file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
            yield from source.read_records("row", rows(table), source.fields.values)
    except HeedError:
        raise
    except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise HeedError(f"{source.file} cannot be read as parquet: {reason} (a damaged file?).") from error


# ---- tables


def read_tsv(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a table with tabs between columns and without quoting: one pair per line. Empty lines are skipped."""
    return _read_table(source, advance, partial(_rows, split=lambda row: row.split("\t")))


def read_bars(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a table with ||| between columns, as of word aligners."""
    return _read_table(source, advance, partial(_rows, split=lambda row: [cell.strip() for cell in row.split("|||")]))


def read_csv(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a table with commas, or semicolons, between columns; quoted fields may contain these and line breaks."""
    return _read_table(source, advance, _csv_rows)


def _rows(file: Path, advance: Advance, split: Callable[[str], list[str]]) -> Iterator[Row]:
    rows = (line.rstrip("\r") for line in read_lines(file, advance))
    return enumerate((split(row) if row else [] for row in rows), 1)


def _csv_rows(file: Path, advance: Advance) -> Iterator[Row]:
    lines = (f"{line}\n" for line in read_lines(file, advance))
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
            f"{file}, line {start:,}: {first_line(error)} (a quote that is not closed or not doubled?)."
        ) from error


def _read_table(
    source: FileSource, advance: Advance, read_rows: Callable[[Path, Advance], Iterator[Row]]
) -> Iterator[Sentences]:
    """Read the pairs of a table's rows. Rows without columns are skipped."""
    rows = filter(itemgetter(1), read_rows(source.file, advance))
    if (first := next(rows, None)) is None:
        return
    indices, width, has_header = _find_columns(source, *first)

    def values(row: Sequence[str]) -> list[str]:
        if len(row) <= max(indices):
            raise HeedError(
                f"{len(row)} columns, but column {max(indices) + 1} is needed: check data.src_field, "
                "data.tgt_field and data.score_field."
            )
        if width and any(row[width:]):  # part of a sentence may be in the next column
            raise HeedError(f"{len(row)} columns, but the first line has {width} (a separator inside a sentence?).")
        return [row[index] for index in indices]

    yield from source.read_records("line", rows if has_header else chain([first], rows), values)


def _find_columns(source: FileSource, line: int, header: Sequence[str]) -> tuple[tuple[int, ...], int, bool]:
    """Return the indices of the fields' columns, the maximum number of columns, and whether there is a header.

    The maximum is 0, for no limit, if the fields are column numbers. Instead of the default names, the languages may be
    column names; two columns without any are read as they are, and a line on stderr says so.
    """
    fields = source.fields.names
    if all(name.isdecimal() and int(name) > 0 for name in fields):
        return tuple(int(name) - 1 for name in fields), 0, False
    names = [name.strip() for name in header]
    if fields[:2] == DEFAULT_NAMES and not set(names) & set(DEFAULT_NAMES):
        codes = {code: name for name in names if (code := named_language(name))}
        asked = [codes.get(find_language(code, codes) or "", "") for code in source.fields.languages if code]
        by_word = [name for words in SIDES for name in names if name.casefold() in words]
        found = (sides for sides in (asked, by_word) if all(sides) and len(sides) == len({*sides}) == 2)
        fields = (*next(found, fields[:2]), *fields[2:])
        has_header = len(codes) + len(by_word) == 2
        if len(names) == 2 and fields == DEFAULT_NAMES and not (has_header and asked):
            kind = "a header" if has_header else "a pair"
            print_line(f"{source.file}: reading columns 1 and 2 as source and target, and line {line} as {kind}.")
            return (0, 1), 2, has_header
    if missing := [name for name in fields if name not in names]:
        raise HeedError(
            f"{source.file}, line {line}: no column {missing[0]!r} (found: {', '.join(names)!s:.200}): set "
            "data.src_field and data.tgt_field (and data.score_field) to column names of the first line, or to "
            "column numbers if there is no header, such as data.src_field=1 data.tgt_field=2."
        )
    if repeated := [name for name in fields if names.count(name) > 1]:
        raise HeedError(
            f"{source.file}, line {line}: several columns are called {repeated[0]!r}: rename all but one, or delete "
            "this line and choose columns by number."
        )
    return tuple(map(names.index, fields)), len(names), True


# ---- translation memories


def read_tmx(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read a translation memory (TMX 1.4), without scores.

    Formatting codes and units without both languages are skipped.
    """
    if None in source.fields.languages:
        raise HeedError(f"{source.file}: a TMX file may have many languages: set data.src_lang and data.tgt_lang.")
    src, tgt = map(str, source.fields.languages)
    languages, found = set[str](), False

    def pair(unit: Element) -> list[str] | None:
        texts = {tuv.get(XML_LANG) or tuv.get("lang") or "": tuv.find("seg") for tuv in unit.iter("tuv")}
        languages.update(texts)
        sides = [texts.get(find_language(language, texts) or "") for language in (src, tgt)]
        if sides[0] is None or sides[1] is None or sides[0] is sides[1]:
            return None
        return [_text(sides[0]).strip(), _text(sides[1]).strip()]

    for block in source.read_records("unit", enumerate(_units(source.file, advance), 1), pair):
        found = True
        yield block
    if not found:
        known = ", ".join(sorted(languages)) or "none"
        raise HeedError(f"{source.file} has no unit in both {src} and {tgt} (its languages: {known}).")


def _units(file: Path, advance: Advance) -> Iterator[Element]:
    """Yield the units one by one, in constant memory."""
    parser: Any = XMLPullParser(("start", "end"))
    body = Element("body")
    try:
        for chunk in chain(read_bytes(file, advance), [None]):
            parser.close() if chunk is None else parser.feed(chunk)
            for event, element in parser.read_events():
                if event == "start" and element.tag == "body":
                    body = element
                if event == "end" and element.tag == "tu":
                    yield element
                    body.clear()
    except HeedError:
        raise
    except (ParseError, ValueError, LookupError) as error:
        raise HeedError(f"{file} cannot be read as TMX: {first_line(error)}.") from error


def _text(element: Element) -> str:
    """Return the text of a segment without formatting codes."""
    inner = (("" if child.tag in CODES else _text(child)) + (child.tail or "") for child in element)
    return (element.text or "") + "".join(inner)
