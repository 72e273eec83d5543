"""Files that are written whole or not at all, and a full disk as a sentence."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heed.errors import HeedError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""The disk, a quota, or the largest allowed file is used up."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Makes a full disk met inside the block a HeedError that names ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise HeedError(
            f"{path} could not be written ({os.strerror(error.errno)}): make room and try again."
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to, a file or a folder; it takes the place of ``path`` if the block succeeds.

    Otherwise it is removed: nothing half-written ever stands under ``path``, and what stood there before is kept.
    """
    partial = path.with_name(f"{path.name}.partial")
    remove(partial)
    try:
        with writing(path):
            yield partial
            partial.replace(path)
    finally:
        remove(partial)


def remove(path: Path) -> None:
    """Delete a file or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
