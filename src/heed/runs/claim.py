"""Claim a run folder for one run, exclusively: no two runs ever write to the same one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heed.errors import HeedError
from heed.files import writing

LOCK = ".lock"
"""A file in the run folder that is locked (flock) while a process trains there. The lock dies with the process."""
CONFIG = "config.yaml"
RESULTS = "results.json"
"""Written last: its presence says that the run is finished."""


def create(parent: Path, now: str) -> Path:
    """Create and return a new folder in ``parent``, named after the time ``now``, with a suffix when taken.

    Folders sort in the order in which they were created (:func:`creation_order`), also when the clock went back:
    the name is then that of the newest folder, with the next suffix.

    Args:
        now: the time as ``YYYY-MM-DD_hh-mm-ss``.
    """
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            time, number = max((creation_order(path) for path in parent.iterdir()), default=("", 0))
            name = now if now > time else f"{time}-{number + 1}"
            try:
                (parent / name).mkdir()
            except FileExistsError:  # another process was faster
                continue
            return parent / name


def creation_order(folder: Path) -> tuple[str, int]:
    """A sort key of folders made by :func:`create`; other names come before all of them."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)(?:-(\d+))?", folder.name)
    return (match[1], int(match[2] or 1)) if match else ("", 0)


def newest_unfinished(parent: Path) -> Path:
    """Return the newest folder in ``parent`` that has a checkpoint folder and no results.

    Raises:
        HeedError: if there is none.
    """
    begun = [path for path in parent.glob("*/") if (path / "checkpoints").is_dir()]
    unfinished = [path for path in begun if not (path / RESULTS).exists()]
    if not unfinished:
        raise HeedError(
            f"resume=true found no unfinished run with a checkpoint in {parent}. "
            "Leave out resume=true to start a run, or name another one with name=NAME or hydra.run.dir=DIR."
        )
    return max(unfinished, key=lambda path: (creation_order(path), path.name))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder's lock within the block.

    Raises:
        HeedError: if another process holds it.
    """
    from filelock import FileLock, Timeout

    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / LOCK, blocking=False).acquire()
    except Timeout as error:
        raise HeedError(
            f"{folder} is in use: another process trains in it. Wait until it has ended, or stop it; "
            "name another run with name=NAME or hydra.run.dir=DIR."
        ) from error
    with lock:
        yield
