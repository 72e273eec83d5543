"""Fingerprints of text, and build-once caches."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heed.errors import HeedError
from heed.files import remove, replacing
from heed.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

BLOCK = 20_000
"""Sentence pairs held in memory as Python strings at a time: a few MB. Fingerprints depend on this number."""

FORMAT = 1
"""Version of the cache's file formats. Entries of another version are built again."""


def blocks(dataset: "Dataset") -> Iterator[tuple[list[str], list[str]]]:
    """Yield the sources and the targets of a dataset, ``BLOCK`` pairs at a time."""
    for table in dataset.with_format("arrow").iter(batch_size=BLOCK):
        yield table["src"].to_pylist(), table["tgt"].to_pylist()


def text_fingerprint(*splits: "Dataset") -> str:
    """Return a digest of the sentences and their order, independent of the machine and the file format."""
    digest = hashlib.blake2b(digest_size=16)
    with Progress("Fingerprinting the text", total=sum(map(len, splits)), unit="pairs") as bar:
        for split in splits:
            digest.update(f"{len(split)} pairs\n".encode())
            for columns in blocks(split):
                for sentences in columns:
                    digest.update("\n".join(sentences).encode())
                    digest.update(b"\n\n")
                bar.update(len(columns[0]))
    return digest.hexdigest()


def mapped_dataset(path: Path, schema: "pa.Schema", tables: "Iterable[pa.Table]") -> "Dataset":
    """Return the tables as a memory-mapped dataset in the file ``path``.

    Args:
        tables: the content; it is consumed only if ``path`` does not exist yet or is damaged.
    """
    import pyarrow as pa
    from datasets import Dataset

    def write(partial: Path) -> None:
        with partial.open("wb") as file, pa.ipc.new_stream(file, schema) as stream:
            for table in tables:
                stream.write_table(table)

    return Dataset.from_file(str(build_once(path, write)))


def build_once(path: Path, build: Callable[[Path], None]) -> Path:
    """Return ``path`` (a file or a folder), after building it if it is missing or damaged.

    One of several processes builds and the others wait; if that process is killed, the next one builds. A checksum file
    next to ``path`` identifies complete entries of this version's format.

    Args:
        path: the entry.
        build: called with a temporary path, to which it writes the entry.

    Raises:
        HeedError: if the entry cannot be written.
    """
    from filelock import FileLock

    if _is_intact(path):
        return path
    try:
        os.fsencode(path).decode()  # Arrow opens only UTF-8 paths
    except UnicodeDecodeError as error:
        raise HeedError(f"{path.parent} is not a UTF-8 path: set cache_dir=DIR to a path that is.") from error
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
            f"Cannot write the cache entry {path} ({error.strerror or error}): set cache_dir=DIR to a writable folder, "
            "or free some space and delete this entry."
        ) from error
    return path


def _is_intact(path: Path) -> bool:
    """Return whether the entry is exactly what `build_once` wrote."""
    try:
        return _checksum_file(path).read_text() == _checksum(path)
    except (OSError, UnicodeDecodeError):
        return False


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.checksum")


def _checksum(path: Path) -> str:
    """Return the digest of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.blake2b(f"format {FORMAT}\n".encode(), digest_size=16)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    if missing := next((file for file in files if not file.is_file()), None):
        raise FileNotFoundError(missing)
    entry = f"{path.parent.name}/{path.name.removesuffix('.partial')}"
    with Progress(f"Checking {entry}", total=sum(file.stat().st_size for file in files), unit="B") as bar:
        for file in files:
            digest.update(f"{file.name if file != path else ''}\n".encode())
            digest.update(_file_digest(file, bar))
    return digest.hexdigest()


def _file_digest(file: Path, bar: Progress) -> bytes:
    digest = hashlib.blake2b()
    with file.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest.digest()
