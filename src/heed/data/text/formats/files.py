"""Read files as bytes or as lines, decompressed, and tell their format by their first lines."""

import codecs
import csv
import json
import re
import shlex
import stat
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.errors import HeedError, first_line
from heed.progress import Advance

COMPRESSIONS = {
    "gzip": rb"\x1f\x8b\x08",
    "bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
    "zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",  # a frame, or the skippable frame that pzstd writes first
    "lz4": rb"\x04\x22\x4d\x18",
}
"""The first bytes of a compressed file, by Arrow's name of the compression."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
"""Suffixes of compressed files."""
UNREAD = {"xz -d": rb"\xfd7zXZ\x00", "unzip": rb"PK\x03\x04"}
"""The first bytes of other compressed files, by the command that decompresses them."""
FORMATS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""For each format how it starts, and why it is not read in a pair: see ``files.toml``."""
START = 2**16  # bytes that tell the format
ROWS = 100  # lines that are read as rows of a table
SURE_ROWS = 10  # rows from which one side of a pair is taken for a table, because sentences too may have tabs


def find_compression(file: Path) -> str | None:
    """Return the compression of a file, a key of `COMPRESSIONS`; None if it is not compressed.

    Raise a HeedError if the file is missing, is not a regular file or cannot be read, or its format is not supported.
    """
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
    for command, pattern in UNREAD.items():
        if re.match(pattern, start):
            raise HeedError(
                f"{file} is compressed in an unsupported format: decompress it first, for instance: "
                f"{command} {shlex.quote(str(file))}"
            )
    return next((name for name, pattern in COMPRESSIONS.items() if re.match(pattern, start)), None)


def without_compression(name: str) -> str:
    """Return a file name without a suffix of `COMPRESSED`."""
    return name[: -len(Path(name).suffix)] if name.lower().endswith(COMPRESSED) else name


def read_bytes(file: Path, advance: Advance) -> Iterator[bytes]:
    """Yield the content of a file, decompressed, in chunks, or raise a HeedError if the file is damaged."""
    compression = find_compression(file)
    try:
        with file.open("rb") as disk:
            stream: Any = disk
            if compression is not None:
                import pyarrow as pa  # slow to import

                # Arrow opens only UTF-8 paths, so Python opens the file.
                stream = pa.CompressedInputStream(pa.PythonFile(disk, "r"), compression)
            done = 0
            while chunk := stream.read(2**16):
                advance(disk.tell() - done)
                done = disk.tell()
                yield chunk
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {first_line(error)}") from error


# ---- lines of text


def read_lines(file: Path, advance: Advance) -> Iterator[str]:
    """Yield the lines of a file. Only "\\n" ends a line; Python's text mode would also split at "\\r".

    Raise a HeedError that names a line that is not UTF-8.
    """
    number = 0
    for content in _whole_lines(file, advance):
        lines = _decode(content if number else content.removeprefix(codecs.BOM_UTF8), file, number).split("\n")
        if not lines[-1]:  # after the last line end
            lines.pop()
        number += len(lines)
        yield from lines


def _whole_lines(file: Path, advance: Advance) -> Iterator[bytes]:
    rest: list[bytes] = []
    for chunk in read_bytes(file, advance):
        if end := chunk.rfind(b"\n") + 1:
            yield b"".join([*rest, chunk[:end]])
            rest = []
        rest.append(chunk[end:])
    yield b"".join(rest)


def _decode(content: bytes, file: Path, first: int) -> str:
    """Decode lines that follow the first ``first`` lines of a file; raise a HeedError unless they are UTF-8 text."""
    try:
        if b"\0" not in content:
            return content.decode()
    except UnicodeDecodeError:
        pass
    for number, line in enumerate(content.split(b"\n"), first + 1):
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in line:
            raise HeedError(
                f"{file}, line {number:,}: not UTF-8 text, but UTF-16 or binary data (it has a UTF-16 byte order mark "
                "or zero bytes). If the whole file is UTF-16, convert it with: iconv -f UTF-16 -t UTF-8 "
                f"{shlex.quote(str(file))}. Otherwise correct this line."
            )
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise HeedError(
                f"{file}, line {number:,}: not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). If all of "
                "the file has another encoding, convert it, for instance: iconv -f ISO-8859-1 -t UTF-8 "
                f"{shlex.quote(str(file))}. Otherwise correct this line."
            ) from error
    raise AssertionError("every line is UTF-8 text")


# ---- formats


def find_format(file: Path, *, in_pair: bool = False) -> str | None:
    """Return the format of a file, a key of `FORMATS`; None for plain text, and if the file cannot be read.

    One side of a pair is probably plain text.
    """
    content = b""
    try:
        for chunk in read_bytes(file, lambda _: None):
            content += chunk
            if len(content) >= START:
                break
    except HeedError:  # reading the file will say why
        return None
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    text = content[:START].decode(encoding, errors="ignore").lstrip()
    known = (name for name, kind in FORMATS.items() if re.match(kind["start"], text, re.IGNORECASE))
    lines = text.split("\n") if len(content) < START else text.split("\n")[:-1]
    rows = [line for line in lines if line.rstrip("\r")][:ROWS]
    return next(known, None) or _json_format(text) or _table_format(rows, in_pair)


def refuse_format(file: Path, name: str) -> None:
    """Raise a HeedError that says what to do with a file of this format."""
    raise HeedError(f"{file} {FORMATS[name]['refused'].format(file=file)}.")


def require_plain_text(file: Path) -> None:
    """Raise a HeedError if a file has another format than one sentence per line."""
    if name := find_format(file, in_pair=True):
        what = FORMATS[name]["refused"].partition(":")[0]
        raise HeedError(f"{file} {what}: give plain text with one sentence per line.")


def arrays_of_objects(value: Any) -> list[list[Any]]:
    """Return the arrays of objects that a JSON value is or contains."""
    values = value.values() if isinstance(value, dict) else [value]
    return [each for each in values if isinstance(each, list) and each and isinstance(each[0], dict)]


def _json_format(text: str) -> str | None:
    """Return "jsonl" for an object per line, "json" for one object with an array of all pairs, None for other text."""
    if not re.match(r'\{\s*("[^"\n]*"\s*:|$)', text):
        return None
    line, _, rest = text.partition("\n")
    try:
        return "json" if len(arrays_of_objects(json.loads(line))) == 1 and not rest.strip() else "jsonl"
    except (ValueError, RecursionError):
        return "json" if re.match(r'\{\s*(\n|"[^"\n]*"\s*:\s*\[)', text) else "jsonl"


def _table_format(rows: Sequence[str], in_pair: bool) -> str | None:
    """Return the format of a table if these rows all have a separator, and as many columns if it is a comma."""
    if not rows or (in_pair and len(rows) < SURE_ROWS):
        return None
    for name, separator in (("tsv", "\t"), ("bars", "|||")):
        if all(separator in row for row in rows):
            return name
    try:
        widths = {len(row) for row in csv.reader(rows, strict=True)}
    except csv.Error:
        return None
    is_quoted = all(row.startswith('"') and row.rstrip().endswith('"') for row in rows)
    return "csv" if len(widths) == 1 < max(widths) and (is_quoted or (len(rows) > 2 and not in_pair)) else None


def one_line(text: str) -> str:
    """Strip line ends, and replace line breaks inside the text by spaces."""
    return text.rstrip("\r\n").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
