"""Ways to damage a file."""

import os
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
