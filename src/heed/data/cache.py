"""Files and folders that are built once."""

import glob
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from heed.errors import HeedError
from heed.files import remove, remove_unfinished, replacing
from heed.progress import Progress

FORMAT = 1
"""Version of the cache's file formats. Entries of another version are built again."""


def build_once(path: Path, build: Callable[[Path], None]) -> Path:
    """Return ``path`` (a file or a folder), after building it if it is missing or damaged.

    One of several processes builds and the others wait; if that process is killed, the next one builds. A checksum file
    next to ``path`` identifies complete entries of this version's format.

    Args:
        path: the entry.
        build: called with a temporary path, to which it writes the entry.

    Raises:
        HeedError: if the entry cannot be written.
    """
    from filelock import FileLock

    if _is_intact(path):
        return path
    try:
        os.fsencode(path).decode()  # Arrow opens only UTF-8 paths
    except UnicodeDecodeError as error:
        raise HeedError(f"{path.parent} is not a UTF-8 path: set cache_dir=DIR to a path that is.") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not _is_intact(path):
                remove(path)
                remove_unfinished(path.parent, glob.escape(path.name))
                with replacing(path) as partial:
                    build(partial)
                    with replacing(_checksum_file(path), durable=True) as manifest:
                        manifest.write_text(_checksum(partial), encoding="utf-8")
    except OSError as error:
        raise HeedError(
            f"Cannot write the cache entry {path} ({error.strerror or error}): set cache_dir=DIR to a writable folder, "
            "or free some space and delete this entry."
        ) from error
    return path


def _is_intact(path: Path) -> bool:
    """Return whether the entry is exactly what `build_once` wrote."""
    try:
        return _checksum_file(path).read_text(encoding="utf-8") == _checksum(path)
    except (OSError, UnicodeDecodeError):
        return False


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.checksum")


def _checksum(path: Path) -> str:
    """Return the digest of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.blake2b(f"format {FORMAT}\n".encode(), digest_size=16)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    if missing := next((file for file in files if not file.is_file()), None):
        raise FileNotFoundError(missing)
    entry = f"{path.parent.name}/{path.name}"
    with Progress(f"Checking {entry}", total=sum(file.stat().st_size for file in files), unit="B") as bar:
        for file in files:
            digest.update(f"{file.name if file != path else ''}\n".encode())
            digest.update(_file_digest(file, bar))
    return digest.hexdigest()


def _file_digest(file: Path, bar: Progress) -> bytes:
    digest = hashlib.blake2b()
    with file.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest.digest()
