"""Work done once: what a corpus is known by, and files that are built when they are not there yet."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heed.errors import HeedError
from heed.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

BLOCK = 20_000
"""Pairs held as Python strings at a time: a few MB, and nothing is gained by more. Fingerprints depend on it."""


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
    """The tables as a dataset on disk, memory-mapped; ``tables`` is only looked at if ``path`` is not there yet."""
    import pyarrow as pa
    from datasets import Dataset

    def write(partial: Path) -> None:
        with pa.ipc.new_stream(str(partial), schema) as stream:
            for table in tables:
                stream.write_table(table)

    return Dataset.from_file(str(build_once(path, write)))


def build_once(path: Path, build: Callable[[Path], None]) -> Path:
    """``path`` (a file or a folder), written by ``build(temporary path)`` if it is not there yet.

    Of several processes one builds and the others wait for it; an interrupted build leaves nothing under ``path``.
    """
    from filelock import FileLock

    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeedError(f"{path.parent} cannot be made ({error.strerror}): set cache_dir=DIR.") from error
    with FileLock(f"{path}.lock"):
        if not path.exists():
            with replacing(path) as partial:
                build(partial)
    return path
