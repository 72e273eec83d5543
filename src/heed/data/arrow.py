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
    # Python's open() raises OSError with an errno, by which `replacing` recognises a full disk.
    with replacing(path) as partial, partial.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        yield writer
