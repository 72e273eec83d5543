"""The cache: each entry is a folder that one process builds once and later runs reuse."""

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from heed.compat import replace
from heed.errors import HeedError, MachineError
from heed.files import remove, remove_unfinished, write_file
from heed.progress import is_first_process, progress_bar, track

CACHE_FORMAT = 6
"""Version of the entries. Entries of another version are rebuilt."""
MANIFEST = "manifest.json"
"""File of an entry with the size and the digest of every other file."""
VERIFIED_BYTES = 2**28
"""Entries up to this size are compared with their digests whenever they are opened: a fraction of a second."""
POLL = 0.5
"""Seconds between two attempts to get the lock."""
HEAD_START = 10.0
"""Seconds that the other processes of a run wait for the first one to take the lock."""


def cache_key(*content: Any) -> str:
    """Return a name for an entry that depends on this content."""
    return hashlib.blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def cache_home() -> Path:
    """Return this user's folder, ``$XDG_CACHE_HOME/heed`` or ``~/.cache/heed``, or raise a HeedError if it has none."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:  # XDG: a relative path is ignored
        return (folder if folder.is_absolute() else Path.home() / ".cache") / "heed"
    except RuntimeError as error:
        raise HeedError("There is no folder for caches: set HOME or XDG_CACHE_HOME to a writable folder.") from error


def build_once(
    folder: Path,
    build: Callable[[Path], None],
    *,
    wait_minutes: float = 60.0,
    setting: str = "cache_dir",
    limit: str | None = "data.preparation.wait_minutes",
) -> Path:
    """Return the folder of an entry. If the entry is missing or damaged, build it first.

    One process builds while others wait. An interrupted build leaves ``folder.FORMAT.partial``, and the next build
    continues there. A damaged entry is rebuilt under another name, because other processes may have mapped its files.

    Args:
        folder: path of the entry. "-1", "-2", … is appended if entries with the earlier names are damaged.
        build: writes the entry to the given folder, which may hold files of an interrupted build.
        wait_minutes: time to wait for another process that builds the entry.
        setting: the option or variable with which users choose the folder, for messages.
        limit: the option that sets ``wait_minutes``; None: there is none.

    Raises:
        HeedError: if the entry cannot be written, or another process needs longer than ``wait_minutes``.
    """
    path = _find(folder)
    if path.exists():
        return path
    try:
        os.fsencode(folder).decode()  # Arrow opens only UTF-8 paths
    except UnicodeDecodeError as error:
        raise HeedError(f"{folder.parent} is not a UTF-8 path: set {setting}=DIR to a path that is.") from error
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, wait_minutes, limit):
            path = _find(folder)  # another process may have built it
            if not path.exists():
                partial = folder.with_name(f"{folder.name}.{CACHE_FORMAT}.partial")
                partial.mkdir(exist_ok=True)
                try:
                    build(partial)
                except HeedError as error:
                    if not isinstance(error, MachineError):  # once the user has corrected the input, the key differs
                        remove(partial)
                    raise
                remove_unfinished(partial, "**/*")  # of killed processes and their workers
                _write_manifest(partial)
                replace(partial, path)
            return path
    except OSError as error:
        raise HeedError(
            f"{folder} cannot be written ({error.strerror or error}): set {setting}=DIR to a writable folder, or "
            "make room. Finished parts are kept and reused."
        ) from error


def _find(folder: Path) -> Path:
    """Return the path of the complete entry, or else the path for a new one, which does not exist."""
    paths = (folder.with_name(f"{folder.name}-{number}") if number else folder for number in count())
    return next(path for path in paths if not path.exists() or _is_complete(path))


def _is_complete(folder: Path) -> bool:
    """Return whether the files of an entry match its manifest."""
    try:
        manifest = _read_manifest(folder)
        files = [(folder / name, file["size"], file["digest"]) for name, file in manifest["files"].items()]
        if manifest["format"] != CACHE_FORMAT or any(file.stat().st_size != size for file, size, _ in files):
            return False
        is_large = sum(size for _, size, _ in files) > VERIFIED_BYTES
        return is_large or all(file_digest(file) == digest for file, _, digest in files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file of an entry, by its path in the folder."""
    return {name: file["digest"] for name, file in _read_manifest(folder)["files"].items()}


def _read_manifest(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def _write_manifest(folder: Path) -> None:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != MANIFEST]
    described = {
        file.relative_to(folder).as_posix(): {"size": file.stat().st_size, "digest": file_digest(file)}
        for file in track(files, f"Checking {folder.name.partition('.')[0]}", unit="files")
    }
    write_file(folder / MANIFEST, json.dumps({"format": CACHE_FORMAT, "files": described}, indent=1), durable=True)


def file_digest(file: Path) -> str:
    """Return the digest of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@contextmanager
def _locked(folder: Path, wait_minutes: float, limit: str | None) -> Iterator[None]:
    """Hold the lock of an entry. The operating system releases it if this process dies."""
    from filelock import FileLock, Timeout

    lock, owner = FileLock(f"{folder}.lock"), folder.with_name(f"{folder.name}.owner")
    start, holder = time.monotonic(), "another process"
    with progress_bar(f"Waiting for another process that prepares {folder.name}", unit="attempts") as bar:
        # Only the first process of a run reports progress, so it should build.
        while not (is_first_process() or owner.exists() or folder.exists()) and time.monotonic() < start + HEAD_START:
            time.sleep(POLL)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                with suppress(OSError):  # not yet written, or removed again
                    holder = owner.read_text(encoding="utf-8")
                bar.set_postfix_str(holder, refresh=False)
                if time.monotonic() - start > 60 * wait_minutes:
                    raise HeedError(
                        f"{folder} is still being prepared by {holder} after {wait_minutes:g} minutes: check that it "
                        f"is running{f', or raise {limit}' if limit else ''}."
                    ) from None
                bar.update()
                time.sleep(POLL)
    try:
        owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()
