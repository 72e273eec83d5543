"""Create, lock and remove run folders, and find the state of a run. No two runs ever write to the same folder."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from heed.errors import HeedError
from heed.files import writing
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.config import HYDRA_FOLDER, RUN_CONFIG
from heed.runs.results import FACTS_FILE, PRUNED, RESULTS

LOCK = ".lock"
"""A file in the run folder that is locked while a process trains there. The lock ends with the process."""
FAILURE = "failure.txt"
"""Written to the folder of a run that failed: the reason in the first line, then the traceback."""

RunState = Literal["finished", "pruned", "running", "failed", "interrupted"]


def create(parent: Path, now: str | None = None) -> Path:
    """Create a new folder in ``parent``, named after the time (``YYYY-MM-DD_hh-mm-ss``), with a suffix if it exists.

    `creation_order` sorts these folders. If the clock was set back, the name is the newest folder's name with the next
    suffix.
    """
    now = now or f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            time, number = max((creation_order(path) for path in parent.iterdir()), default=("", 0))
            name = now if now > time else f"{time}-{number + 1}"
            try:
                (parent / name).mkdir()
            except FileExistsError:  # another process has created it
                continue
            return parent / name


def creation_order(folder: Path) -> tuple[str, int]:
    """Return a sort key of folders made by `create`; folders with other names sort first."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)(?:-(\d+))?", folder.name)
    return (match[1], int(match[2] or 1)) if match else ("", 0)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder's lock within the block; raise a HeedError if another process holds it."""
    from filelock import FileLock, Timeout

    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / LOCK, timeout=1).acquire()  # `is_locked` may hold it for a moment
    except Timeout as error:
        raise HeedError(
            f"{folder} is in use by another training process: wait until it ends, stop it, or name another run with "
            "name=NAME or folder=DIR."
        ) from error
    with lock:
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process of this machine trains in a folder."""
    from filelock import FileLock, Timeout

    try:
        if (folder / LOCK).exists():
            FileLock(folder / LOCK, blocking=False).acquire().lock.release()
    except OSError as error:  # another process holds the lock, or the folder may only be read
        return isinstance(error, Timeout)
    return False


def find_state(run: Path, *, is_running: bool | None = None) -> tuple[RunState, str]:
    """Return the state of a run, or of a copy of its folder, and why it failed.

    ``is_running`` says whether a process trains there; None: find out.
    """
    if (run / RESULTS).is_file():
        return "finished", ""
    if (run / PRUNED).is_file():
        return "pruned", ""
    if is_locked(run) if is_running is None else is_running:
        return "running", ""
    if (run / FAILURE).is_file():
        return "failed", (run / FAILURE).read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    return "interrupted", ""


def remove_if_empty(folder: Path) -> None:
    """Remove the folder of a run that ended before it wrote metrics, unless it holds other files."""
    if not (folder / METRICS_FILE).exists():
        hydra = [f"{HYDRA_FOLDER}/{name}.yaml" for name in ("config", "hydra", "overrides")]
        for file in (RUN_CONFIG, FACTS_FILE, "wandb/id", LOCK, *hydra):
            with suppress(PermissionError):  # on Windows, releasing the lock removes it
                (folder / file).unlink(missing_ok=True)
    for path in (folder / "wandb", folder / HYDRA_FOLDER, folder):
        remove_empty(path)


def remove_empty(folder: Path) -> None:
    """Remove an empty folder."""
    with suppress(OSError):  # not empty
        folder.rmdir()
