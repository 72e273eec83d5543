"""Files that may be compressed, recognised by their first bytes."""

import bz2
import gzip
import io
import lzma
import re
import shlex
import stat
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from heed.errors import HeedError

MAGIC = {
    "gzip": rb"\x1f\x8b\x08",
    "xz": rb"\xfd7zXZ\x00",
    "bzip2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
    "zstd": rb"\x28\xb5\x2f\xfd",
    "lz4": rb"\x04\x22\x4d\x18",
    "zip": rb"PK\x03\x04",
}
"""Compressed formats: a regular expression for the first bytes."""

UNSUPPORTED = {"lz4": "lz4 -d", "zip": "unzip"}
"""Formats that are not read, and the command that decompresses them."""

SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
"""Suffixes of compressed files."""

DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)
"""What reading a damaged compressed file raises."""


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
    return name[: -len(suffix)] if (suffix := next((s for s in SUFFIXES if name.endswith(s)), "")) else name


@contextmanager
def opened(file: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file for reading. Yields its content, decompressed, and the file on disk, which knows the position."""
    compression = find_compression(file)
    with ExitStack() as stack:
        disk = stack.enter_context(file.open("rb"))
        content: Any = disk
        if compression == "gzip":
            content = stack.enter_context(gzip.open(disk))
        elif compression == "xz":
            content = stack.enter_context(lzma.open(disk))
        elif compression == "bzip2":
            content = stack.enter_context(bz2.open(disk))
        elif compression == "zstd":
            content = io.BufferedReader(_ZstdFile(disk, file), 2**20)
        yield content, disk


class _ZstdFile(io.RawIOBase):
    """The content of a zstd file. The library's own reader takes a truncated file for a whole one."""

    def __init__(self, disk: IO[bytes], file: Path) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise HeedError(f"{file} is compressed with zstd: run `pip install 'heed[zstd]'` to read it.") from error
        self._decompressor = zstandard.ZstdDecompressor()
        self._error = zstandard.ZstdError
        self._disk = disk
        self._frame = self._decompressor.decompressobj()
        self._content = b""
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            compressed = self._rest or self._disk.read(2**17)
            self._rest = b""
            if not compressed:
                if not self._frame.eof:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
                return 0
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            try:
                self._content = self._frame.decompress(compressed)
            except self._error as error:
                raise OSError(str(error)) from error
            if self._frame.eof:
                self._rest = self._frame.unused_data
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count
