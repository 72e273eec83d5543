"""Fingerprints of text, and build-once caches."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heed.errors import HeedError
from heed.files import remove, replacing

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

BLOCK = 20_000
"""Pairs held as Python strings at a time: a few MB, and nothing is gained by more. Fingerprints depend on it."""


FORMAT = 1
"""The version of what is written to the cache; entries of another version are built again."""


def blocks(dataset: "Dataset") -> Iterator[tuple[list[str], list[str]]]:
    """The sources and targets of a dataset, ``BLOCK`` pairs at a time."""
    for table in dataset.with_format("arrow").iter(batch_size=BLOCK):
        yield table["src"].to_pylist(), table["tgt"].to_pylist()


def text_fingerprint(*splits: "Dataset") -> str:
    """A digest of the sentences themselves and their order: the same on every machine, wherever they came from."""
    digest = hashlib.blake2b(digest_size=16)
    for split in splits:
        digest.update(f"{len(split)} pairs\n".encode())
        for columns in blocks(split):
            for sentences in columns:
                digest.update("\n".join(sentences).encode())
                digest.update(b"\n\n")
    return digest.hexdigest()


def mapped_dataset(path: Path, schema: "pa.Schema", tables: "Iterable[pa.Table]") -> "Dataset":
    """Return the tables as a memory-mapped dataset on disk; ``tables`` is only read if ``path`` has to be built."""
    import pyarrow as pa
    from datasets import Dataset

    def write(partial: Path) -> None:
        with partial.open("wb") as file, pa.ipc.new_stream(file, schema) as stream:
            for table in tables:
                stream.write_table(table)

    return Dataset.from_file(str(build_once(path, write)))


def build_once(path: Path, build: Callable[[Path], None]) -> Path:
    """Return ``path`` (a file or a folder), written by ``build(temporary path)`` where it is missing or damaged.

    Of several processes one builds and the others wait for it; if it is killed, the next one builds. A checksum beside
    ``path`` tells a whole entry from a damaged one, and from one that another version of heed wrote.

    Raises:
        HeedError: if nothing can be written there.
    """
    from filelock import FileLock

    if _is_intact(path):
        return path
    try:
        os.fsencode(path).decode()  # Arrow opens no other paths
    except UnicodeDecodeError as error:
        raise HeedError(f"{path.parent} is not a UTF-8 path: set cache_dir=DIR to one that is.") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not _is_intact(path):
                remove(path)
                with replacing(path) as partial:
                    build(partial)
                    _checksum_file(path).write_text(_checksum(partial))
    except OSError as error:
        raise HeedError(
            f"{path} cannot be made ({error.strerror or error}). It is part of a cache: set cache_dir=DIR to a folder "
            "that can be written, or make room and delete this one."
        ) from error
    return path


def _is_intact(path: Path) -> bool:
    """Whether this is what `build_once` wrote, byte for byte."""
    try:
        return _checksum_file(path).read_text() == _checksum(path)
    except (OSError, UnicodeDecodeError):
        return False


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.checksum")


def _checksum(path: Path) -> str:
    """Return the digest of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.blake2b(f"format {FORMAT}\n".encode(), digest_size=16)
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not file.is_file():
            raise FileNotFoundError(file)
        with file.open("rb") as stream:
            digest.update(f"{file.name if file != path else ''}\n".encode())
            digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()
