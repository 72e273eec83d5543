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
