"""Arrow files: the format of prepared text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from heed.files import replacing


@contextmanager
def new_arrow_file(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """Yield a writer of record batches. The file is written completely or not at all.

    Raises:
        HeedError: if the disk is full.
    """
    # A file of Python's raises the system's errors with their numbers.
    with replacing(path) as partial, partial.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        yield writer


@contextmanager
def open_arrow_file(path: Path) -> Iterator[Any]:
    """Yield a reader of the record batches of a file, which is memory-mapped."""
    with pa.memory_map(str(path)) as mapped:
        yield pa.ipc.open_file(mapped)


def batches_of(reader: Any) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of an open file."""
    return (reader.get_batch(number) for number in range(reader.num_record_batches))
