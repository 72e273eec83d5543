"""What identifies the content of files without reading it."""

from pathlib import Path
from typing import Any

from heed.data.formats.compression import find_compression


def file_identity(*files: Path) -> tuple[Any, ...]:
    """Return paths, sizes and times of files: as long as they are the same, the content is assumed to be.

    Raises:
        HeedError: if a file is missing or is not a regular file.
    """
    for file in files:
        find_compression(file)
    return tuple((str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
