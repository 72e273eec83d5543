"""Arrays in files, written completely or not at all."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.files import replacing


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write a .npy file.

    Raises:
        OSError: with its number; `numpy.save` raises one without it when the disk is full.
    """
    array = np.ascontiguousarray(array)
    with replacing(path) as partial, partial.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.view(np.uint8).data if array.size else b"")


def map_array(path: Path) -> npt.NDArray[Any]:
    """Return the memory-mapped array of a .npy file."""
    # A plain array view, because slicing an np.memmap is slower.
    return np.asarray(np.load(path, mmap_mode="r"))


VERIFIED_BYTES = 2**28
"""Total size up to which files are compared with their digest whenever they are opened: a fraction of a second."""


def files_digest(files: Iterable[Path]) -> str:
    """Return a digest of the content of files."""
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(2**20):
                digest.update(chunk)
    return digest.hexdigest()
