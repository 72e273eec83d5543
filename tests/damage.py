"""Ways to damage a file."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of files in bytes, which has the effect of a full disk without needing one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
