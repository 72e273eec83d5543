"""Read files as bytes or as lines. Compressed files are recognised by their first bytes and decompressed."""

import bz2
import codecs
import lzma
import re
import shlex
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from heed.data.text.source import Advance
from heed.errors import HeedError, first_line, require

COMPRESSIONS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
COMPRESSED = tuple(kind["suffix"] for kind in COMPRESSIONS.values() if "suffix" in kind)
"""Suffixes of compressed files."""


def find_compression(file: Path) -> str | None:
    """Return the compressed format of a file; None if it is not compressed.

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
    found = next((name for name, kind in COMPRESSIONS.items() if re.match(kind["start"].encode(), start)), None)
    if found and (command := COMPRESSIONS[found].get("command")):
        raise HeedError(
            f"{file} is compressed with {found}, an unsupported format: decompress it first, for instance: "
            f"{command} {shlex.quote(str(file))}"
        )
    return found


def without_compression(name: str) -> str:
    """Return a file name without a suffix of `COMPRESSED`."""
    return name[: -len(Path(name).suffix)] if name.lower().endswith(COMPRESSED) else name


def read_bytes(file: Path, advance: Advance) -> Iterator[bytes]:
    """Yield the content of a file, decompressed, in chunks, or raise a HeedError if the file is damaged."""
    compression = find_compression(file)
    try:
        with file.open("rb") as disk:

            def chunks() -> Iterator[bytes]:
                while chunk := disk.read(2**16):
                    advance(len(chunk))
                    yield chunk

            yield from chunks() if compression is None else _decompress(chunks(), _decompressor(compression, file))
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {first_line(error)}") from error


def _decompressor(compression: str, file: Path) -> Callable[[], Any]:
    """Return a function that creates a decompressor for one stream."""
    if compression == "zstd":
        return require("zstandard", f"{file} is compressed, and reading it", "zstd").ZstdDecompressor().decompressobj
    gzip: Any = partial(zlib.decompressobj, zlib.MAX_WBITS + 16)
    return {"gzip": gzip, "xz": lzma.LZMADecompressor, "bzip2": bz2.BZ2Decompressor}[compression]


def _decompress(chunks: Iterable[bytes], new_stream: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the decompressed content of one or several streams, with zeros between and after them.

    The standard library and zstandard would silently cut some damaged files short: they ignore everything after an
    invalid bzip2 or xz stream, and accept a truncated zstd file. Here they raise an OSError.
    """
    stream = None
    for chunk in chunks:
        while chunk := chunk.lstrip(b"\0") if stream is None else chunk:
            stream = stream or new_stream()
            try:
                content = stream.decompress(chunk)
            except Exception as error:  # each library has its own class
                raise OSError(first_line(error)) from error
            yield content
            chunk = stream.unused_data
            stream = None if stream.eof else stream
    if stream is not None:
        raise OSError("Compressed file ended before the end-of-stream marker was reached")


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
