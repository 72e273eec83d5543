"""Files that may be compressed, recognised by their first bytes."""

import bz2
import io
import lzma
import re
import shlex
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from heed.errors import HeedError, first_line, missing_package

MAGIC = {
    "gzip": rb"\x1f\x8b\x08",
    "xz": rb"\xfd7zXZ\x00",
    "bzip2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
    "zstd": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",  # a frame, or one that is skipped, with which pzstd starts
    "lz4": rb"\x04\x22\x4d\x18",
    "zip": rb"PK\x03\x04",
}
"""Compressed formats: a regular expression for the first bytes."""

UNSUPPORTED = {"lz4": "lz4 -d", "zip": "unzip"}
"""Formats that are not read, and the command that decompresses them."""

SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
"""Suffixes of compressed files."""

DAMAGED = (EOFError, OSError)
"""What reading a damaged compressed file raises."""

CHUNK = 2**16
"""Compressed bytes that are read at a time."""

PADDING = b"\0"
"""What may fill up the space between and after the streams of a file: tapes and some downloaders do so."""


def find_compression(file: Path) -> str | None:
    """Return the compressed format of a file; None if it is not compressed.

    Raises:
        HeedError: if the file is missing, is not a regular file or cannot be read, or if the format is not supported.
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
    found = next((name for name, magic in MAGIC.items() if re.match(magic, start)), None)
    if found in UNSUPPORTED:
        raise HeedError(
            f"{file} is compressed with {found}, which is not supported: decompress it first, for instance: "
            f"{UNSUPPORTED[found]} {shlex.quote(str(file))}"
        )
    return found


def without_compression(name: str) -> str:
    """Return a file name without the suffix of a compressed file."""
    suffix = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")
    return name.removesuffix(name[len(name) - len(suffix) :])


@contextmanager
def opened(file: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file for reading. Yields its content, decompressed, and the file on disk, which knows the position."""
    compression = find_compression(file)
    with file.open("rb") as disk:
        if compression is None:
            yield disk, disk
        else:
            new_stream = _zstd_stream(file) if compression == "zstd" else STREAMS[compression]
            yield io.BufferedReader(_Decompressed(disk, new_stream), 2**20), disk


class _Stream(Protocol):
    """A decompressor of one stream. A compressed file has one or several."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def unused_data(self) -> bytes:
        """What follows the end of the stream."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return more of the content."""


STREAMS: dict[str, Callable[[], _Stream]] = {
    "gzip": lambda: zlib.decompressobj(zlib.MAX_WBITS + 16),
    "xz": lzma.LZMADecompressor,
    "bzip2": bz2.BZ2Decompressor,
}


def _zstd_stream(file: Path) -> Callable[[], _Stream]:
    try:
        import zstandard
    except ImportError as error:
        raise missing_package(f"{file} is compressed, and reading it", "zstandard", "zstd") from error
    return zstandard.ZstdDecompressor().decompressobj


class _Decompressed(io.RawIOBase):
    """The content of a compressed file.

    The readers of the standard library and of zstandard take some damaged files for shorter ones: they ignore
    everything from the first bzip2 or xz stream on that is not valid, and a zstd file that ends too early.

    Args:
        disk: the compressed file.
        new_stream: returns a decompressor.
    """

    def __init__(self, disk: IO[bytes], new_stream: Callable[[], _Stream]) -> None:
        self._disk = disk
        self._new_stream = new_stream
        self._stream = new_stream()
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            compressed = self._next_input()
            if not compressed:
                return 0
            try:
                self._content = memoryview(self._stream.decompress(compressed))
            except Exception as error:  # zstandard has a class of its own
                raise OSError(first_line(error)) from error
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def _next_input(self) -> bytes:
        """Return compressed bytes for the stream, which is a new one after the end of another; none at the end."""
        if not self._stream.eof:
            compressed = self._disk.read(CHUNK)
            if not compressed:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            return compressed
        compressed = self._stream.unused_data.lstrip(PADDING)
        while not compressed and (more := self._disk.read(CHUNK)):
            compressed = more.lstrip(PADDING)
        if compressed:
            self._stream = self._new_stream()
        return compressed
