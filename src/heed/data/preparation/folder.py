"""Folders that are built once, by one of several processes, and continued after an interruption."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from heed.compat import replace
from heed.errors import HeedError
from heed.files import remove, remove_unfinished
from heed.progress import Progress, is_first_process

Content = TypeVar("Content")

POLL = 0.5
"""Seconds between two attempts to get the lock."""

HEAD_START = 10.0
"""Seconds for which the other processes of a run leave the lock to the first one."""


def open_or_build(
    folder: Path,
    load: Callable[[Path], Content],
    build: Callable[[Path], None],
    *,
    wait_minutes: float,
    keep_failed: bool = True,
) -> Content:
    """Return the content of a folder, after building the folder if it is missing or damaged.

    One process builds while others wait. If it is interrupted, the next one continues in the same unfinished folder.

    Args:
        folder: its path. While it is built, its name ends in ".partial".
        load: reads the content. Raises a ValueError if it is incomplete or damaged.
        build: writes the content to the given folder, which may hold the beginnings of an earlier attempt.
        wait_minutes: how long to wait for another process that builds.
        keep_failed: whether the unfinished folder is kept after a HeedError, as it is after an interruption.

    Raises:
        HeedError: if the folder cannot be written, or another process needs longer than ``wait_minutes``.
    """
    with suppress(ValueError):
        return load(folder)
    try:
        os.fsencode(folder).decode()
    except UnicodeDecodeError as error:
        raise HeedError(f"{folder.parent} is not a UTF-8 path: set cache_dir=DIR to a path that is.") from error
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, wait_minutes):
            with suppress(ValueError):
                return load(folder)
            remove(folder)
            partial = folder.with_name(f"{folder.name}.partial")
            partial.mkdir(exist_ok=True)
            try:
                build(partial)
            except HeedError:
                if not keep_failed:
                    remove(partial)
                raise
            remove_unfinished(partial, "**/*")  # of killed processes and their workers
            replace(partial, folder)
            return load(folder)
    except OSError as error:
        raise HeedError(
            f"{folder} cannot be written ({error.strerror or error}): set cache_dir=DIR to a writable folder, or make "
            "room. What is prepared so far is kept."
        ) from error


@contextmanager
def _locked(folder: Path, wait_minutes: float) -> Iterator[None]:
    """Hold the lock of a folder. It is free again when its holder dies."""
    from filelock import FileLock, Timeout

    lock, owner = FileLock(f"{folder}.lock"), folder.with_name(f"{folder.name}.owner")
    start = time.monotonic()
    with Progress(f"Waiting for another process that prepares {folder.name}", unit="attempts") as bar:
        # The first process of a run reports the progress, so it should be the one that builds.
        while not (is_first_process() or owner.exists() or folder.exists()) and time.monotonic() < start + HEAD_START:
            time.sleep(POLL)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                bar.note = _read_owner(owner)
                if time.monotonic() - start > 60 * wait_minutes:
                    raise HeedError(
                        f"{folder} is still being prepared by {bar.note} after data.preparation.wait_minutes="
                        f"{wait_minutes:g}: look whether it works, or raise the limit."
                    ) from None
                bar.update()
                time.sleep(POLL)
    try:
        owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def _read_owner(owner: Path) -> str:
    try:
        return owner.read_text(encoding="utf-8")
    except OSError:  # not yet written, or removed again
        return "another process"
