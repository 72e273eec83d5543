"""Reading parallel text from text files, JSONL and parquet. Errors name the file and the line.

Line breaks inside a field (JSON strings may contain some) become spaces, so that every sentence is one line. Nothing
else of the text is changed.
"""

import gzip
import json
import re
import shlex
import stat
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line
from heed.progress import Progress

FileEntry = str | Sequence[str]
"""A pair of text files [source, target], or one JSONL or parquet file."""

Columns = tuple[list[str], list[str]]
"""Sources and targets of consecutive pairs."""

COMPRESSIONS = {
    "gzip": (".gz", rb"\x1f\x8b\x08", "gunzip"),
    "zstd": (".zst", rb"\x28\xb5\x2f\xfd", "zstd -d"),
    "xz": (".xz", rb"\xfd7zXZ\x00", "xz -d"),
    "bzip2": (".bz2", rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2 -d"),
    "lz4": (".lz4", rb"\x04\x22\x4d\x18", "lz4 -d"),
    "zip": (".zip", rb"PK\x03\x04", "unzip"),
}
"""Compressed formats: suffix, regular expression for the first bytes, command that decompresses."""

UNKNOWN_LANGUAGE = "und"
"""The ISO 639-2 code for an undetermined language. BLEU then uses its default tokenizer, 13a."""


def parse_entries(key: str, entries: Sequence[FileEntry]) -> list[tuple[Path, ...]]:
    """Validate a list of files from the command line.

    Args:
        key: the option below ``data`` that is parsed, for messages.
        entries: the value of the option.

    Returns:
        For each entry (source file, target file), or (file with both sides,).

    Raises:
        HeedError: naming the invalid entry.
    """
    if not entries or isinstance(entries, str):
        raise HeedError(f"data.{key}={entries} must be a list of pairs such as '[[a.en,a.de],[b.en,b.de]]'.")
    return [_parse_entry(key, entry) for entry in entries]


def _parse_entry(key: str, entry: FileEntry) -> tuple[Path, ...]:
    names = [entry] if isinstance(entry, str) else list(entry or ())
    if not names or len(names) > 2 or not all(isinstance(name, str) and name for name in names):
        raise HeedError(f"data.{key}: {entry} is not a pair of text files, '[[source file,target file]]'.")
    formats = [_format(Path(name)) for name in names]
    if formats == ["text"]:
        compression = next((name for name, (suffix, _, _) in COMPRESSIONS.items() if names[0].endswith(suffix)), None)
        if compression and compression != "gzip":
            raise HeedError(f"data.{key}: {names[0]} {_decompress_hint(compression, Path(names[0]))}")
        raise HeedError(
            f"data.{key}: {names[0]} has no second file. Give a pair of text files, '[[source file,target file]]' "
            "(`cut -f1` extracts a column of a TSV file), or one .jsonl, .jsonl.gz or .parquet file with both sides."
        )
    if len(names) == 2 and formats != ["text", "text"]:
        raise HeedError(f"data.{key}: {names} is not a pair of text files, '[[source file,target file]]'.")
    try:
        return tuple(Path(name).expanduser() for name in names)
    except RuntimeError as error:
        raise HeedError(f"data.{key}: {names}: the home directory does not exist.") from error


def name_test_sets(entries: list[tuple[Path, ...]]) -> dict[str, list[tuple[Path, ...]]]:
    """Name test sets: "test" if there is one, otherwise the stems of their (source) files, numbered to be unique."""
    if len(entries) == 1:
        return {"test": entries}
    named: dict[str, list[tuple[Path, ...]]] = {}
    for entry in entries:
        stem = re.sub(r"(\.jsonl|\.parquet|\.\w+)?(\.gz)?$", "", entry[0].name)
        stem = re.sub(r"[\ud800-\udfff]", "_", stem)[:80] or "test"  # results are UTF-8, file names may not be
        name, number = stem, 2
        while name in {"train", "valid", *named}:
            name, number = f"{stem}-{number}", number + 1
        named[name] = [entry]
    return named


def _without_gz(file: Path) -> Path:
    """Return the path without .gz."""
    return file.with_suffix("") if file.suffix == ".gz" else file


def _format(file: Path) -> str:
    return {".jsonl": "jsonl", ".parquet": "parquet"}.get(_without_gz(file).suffix, "text")


PART = 2**26
"""Bytes of a part of a pair of text files."""


@dataclass(frozen=True)
class FileSource:
    """A pair of text files, or one file with both sides.

    Args:
        files: (source file, target file), or (file with both sides,).
        fields: source and target field of a JSONL or parquet file.
    """

    files: tuple[Path, ...]
    fields: tuple[str, str]

    def identity(self) -> tuple[Any, ...]:
        for file in self.files:
            _check_file(file)
        stats = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in self.files]
        return "files", stats, self.fields

    def parts(self) -> Sequence[Part]:
        for file in self.files:
            _check_file(file)
        if len(self.files) == 2 and self.files[0].samefile(self.files[1]):
            raise HeedError(
                f"{self.files[0]} is given for both sides: give a source file and a target file (extract the columns "
                "of a TSV file with `cut -f1` and `cut -f2`; to train on identical sides on purpose, give a copy of "
                "the file)."
            )
        return [FilePart(self.files, self.fields)]


@dataclass(frozen=True)
class FilePart:
    """A whole entry."""

    files: tuple[Path, ...]
    fields: tuple[str, str]

    @property
    def name(self) -> str:
        return " and ".join(map(str, self.files))

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def read(self, advance: Advance) -> Iterator[Block]:
        read = 0
        for src, tgt in _read_pairs(self.files, self.fields):
            read += len(src)
            yield Block(src, tgt)
        advance(self.size)
        if not read:
            raise HeedError(f"{self.name}: no sentences.")


def _check_file(file: Path) -> None:
    """Raise a HeedError if a file is missing, is not a regular file, or does not match its suffix."""
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):  # reading could block (named pipe) or never end (/dev/zero)
            kind = "a folder" if stat.S_ISDIR(mode) else "a named pipe, a device or a socket"
            raise HeedError(f"{file} is {kind}: give a regular file.")
        with file.open("rb") as stream:
            start = stream.read(16)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeedError(f"{file} does not exist (relative paths start at {Path.cwd()}).") from error
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {error.strerror}.") from error
    expected = "gzip" if file.suffix == ".gz" and _format(file) != "parquet" else None
    found = next((name for name, (_, magic, _) in COMPRESSIONS.items() if re.match(magic, start)), None)
    if found == expected or not start:
        return
    if found is None:
        raise HeedError(f"{file} is not compressed with gzip: rename it to a name without .gz.")
    if found == "gzip" and _format(file) != "parquet":
        raise HeedError(f"{file} is compressed with gzip, but its name does not end in .gz: rename it.")
    raise HeedError(f"{file} {_decompress_hint(found, file)}")


def _decompress_hint(compression: str, file: Path) -> str:
    _, _, command = COMPRESSIONS[compression]
    return (
        f"is compressed with {compression}, which is not supported: decompress it first, for instance: "
        f"{command} {shlex.quote(str(file))}"
    )


def _read_pairs(files: tuple[Path, ...], fields: tuple[str, str]) -> Iterator[Columns]:
    if len(files) == 2:
        yield from _read_text_pairs(*files)
    elif _format(files[0]) == "jsonl":
        yield from _read_jsonl_pairs(files[0], fields)
    else:
        yield from _read_parquet_pairs(files[0], fields)


def _read_text_pairs(src_file: Path, tgt_file: Path) -> Iterator[Columns]:
    src_lines = tgt_lines = 0
    src: list[str]
    tgt: list[str]
    with _reading(src_file, tgt_file) as bar:
        for src, tgt in zip_longest(_read_lines(src_file, bar), _read_lines(tgt_file, bar), fillvalue=[]):
            src_lines, tgt_lines = src_lines + len(src), tgt_lines + len(tgt)
            if len(src) == len(tgt):
                yield [one_line(text) for text in src], [one_line(text) for text in tgt]
    if src_lines != tgt_lines:
        raise HeedError(
            f"{src_file} has {src_lines:,} lines and {tgt_file} {tgt_lines:,}: "
            "line n of one file must be the translation of line n of the other."
        )


def _reading(*files: Path) -> Progress:
    """Return the progress of reading files: the bytes on disk, which may be compressed."""
    names = " and ".join(file.name for file in files)
    return Progress(f"Reading {names}", total=sum(file.stat().st_size for file in files), unit="B")


def _read_lines(file: Path, bar: Progress) -> Iterator[list[str]]:
    """Yield ``BLOCK`` lines at a time. Only "\\n" ends a line; Python's text mode would also split at "\\r"."""
    number = position = 0
    with file.open("rb") as binary, gzip.open(binary) if file.suffix == ".gz" else binary as stream:
        while raw := _read_block(stream, file):
            bar.update(binary.tell() - position)
            position = binary.tell()
            lines = []
            for line in raw:
                number += 1
                try:
                    lines.append(_decode(line, file, first=number == 1))
                except ValueError as error:
                    raise HeedError(f"{file}, line {number:,}: {error}") from error
            yield lines


def _decode(line: bytes, file: Path, *, first: bool) -> str:
    """Return the text of a line without its line end.

    Args:
        first: whether it is the first line, which may start with a byte order mark.

    Raises:
        ValueError: with a message for users, if the line is not UTF-8 text or has columns.
    """
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line:
        raise ValueError(
            "not UTF-8 text, but UTF-16 or binary data (it has a UTF-16 byte order mark or zero bytes). Convert UTF-16 "
            f"with: iconv -f UTF-16 -t UTF-8 {shlex.quote(str(file))}"
        )
    try:
        text = line.decode("utf-8-sig" if first else "utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). "
            f"Convert it first, for instance: iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(str(file))}"
        ) from error
    if "\t" in text and _without_gz(file).suffix == ".tsv":
        raise ValueError(
            "a tab separates columns, but a line must be one sentence. Write each column to its own file, for "
            f"instance: cut -f1 {shlex.quote(str(file))} > FILE"
        )
    return text


def _read_block(stream: Iterable[bytes], file: Path) -> list[bytes]:
    try:
        return list(islice(stream, BLOCK))
    except (EOFError, OSError, zlib.error) as error:
        raise HeedError(f"{file} cannot be read: {first_line(error)}") from error


def _read_jsonl_pairs(file: Path, fields: tuple[str, str]) -> Iterator[Columns]:
    number = 0
    with _reading(file) as bar:
        for lines in _read_lines(file, bar):
            block: Columns = ([], [])
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                    for column, field in zip(block, fields, strict=True):
                        column.append(one_line(_get_field(record, field)))
                except (ValueError, KeyError, RecursionError) as error:
                    raise HeedError(f"{file}, line {number:,}: {_reason(error)}") from error
            yield block


def _read_parquet_pairs(file: Path, fields: tuple[str, str]) -> Iterator[Columns]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # An open file, because Arrow opens only UTF-8 paths. Checksums are verified if the file contains them.
        with file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
            columns = [name for name in table.schema_arrow.names if name in {field.split(".")[0] for field in fields}]
            with Progress(f"Reading {file.name}", total=table.metadata.num_rows, unit="pairs") as bar:
                for batch in table.iter_batches(batch_size=BLOCK, columns=columns):
                    block: Columns = ([], [])
                    for record in batch.to_pylist():
                        number += 1
                        for column, field in zip(block, fields, strict=True):
                            column.append(one_line(_get_field(record, field)))
                    yield block
                    bar.update(len(batch))
    except KeyError as error:  # from _get_field; Arrow raises several other classes
        raise HeedError(f"{file}, row {number:,}: {_reason(error)}") from error
    except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
        raise HeedError(
            f"{file} cannot be read as parquet: {_reason(error)} (a damaged file? Rows read so far: {number:,})."
        ) from error


def _get_field(record: Any, field: str) -> str:
    """Return the text at a dotted path in nested mappings.

    Raises:
        KeyError: with a message for users, if there is no such field or it is not text.
    """
    value = record
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            found = f"{', '.join(map(str, value)):.200}" if isinstance(value, Mapping) else f"{value!r:.40}"
            raise KeyError(
                f"no field {field!r} (found: {found}); set data.src_field and data.tgt_field to the two sides' fields."
            )
        value = value[key]
    if not isinstance(value, str):
        raise KeyError(f"field {field!r} is {value!r:.40}, which is not text.")
    value.encode()  # a lone surrogate, which JSON can contain, raises UnicodeEncodeError, a ValueError
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "the JSON value is nested too deeply."
    return str(error.args[0]) if isinstance(error, KeyError) else first_line(error)


def one_line(text: str) -> str:
    """Return the text without a line end, and with a space for every line break inside."""
    return text.rstrip("\r\n").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def guess_languages_from_names(entry: tuple[Path, ...], fields: tuple[str, str]) -> tuple[str | None, str | None]:
    """Guess the languages from the suffixes of two files, or from the two fields of one file.

    Returns:
        The codes of source and target. None: the name is not a language code, or both names are the same.
    """
    if len(entry) == 2:
        names = [_without_gz(file).suffix[1:] for file in entry]
    else:
        names = [field.split(".")[-1] for field in fields]
    codes = [
        name if re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]+)*", name) and name not in {"src", "tgt", "trg", "txt"} else None
        for name in names
    ]
    return (codes[0], codes[1]) if codes[0] != codes[1] else (None, None)


def guess_language_from_script(sentences: Sequence[str]) -> str:
    """Recognise Japanese, Korean and Chinese, which have their own BLEU tokenizers, by script; otherwise "und"."""
    scripts = [unicodedata.name(letter, "").split(" ")[0] for letter in "".join(sentences[:200]) if letter.isalpha()]
    for language, script in (("ja", "HIRAGANA"), ("ko", "HANGUL"), ("zh", "CJK")):
        if scripts.count(script) > 0.2 * len(scripts):
            return language
    return UNKNOWN_LANGUAGE
