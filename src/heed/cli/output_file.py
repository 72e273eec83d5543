"""Output files of long work that an interrupted command can continue."""

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from heed.compat import replace
from heed.errors import HeedError
from heed.files import is_device, remove, write_file, writing


@contextmanager
def resumable_output(
    path: Path, settings: Mapping[str, Any], *, block: int, resume: bool
) -> Iterator[tuple[Callable[[Iterable[str]], None], int]]:
    """Yield a function that writes lines to an unfinished file, and how many lines it has, one for each of the input.

    Until the block succeeds, the file is named ``FILE.partial``, beside ``FILE.partial.json`` with the settings that it
    is written with. A killed process leaves both; the next one continues after the last complete block of lines, so
    that the file is the same as without the interruption.

    Args:
        path: the complete file. Into a device such as /dev/stdout, the lines are written directly.
        settings: what the lines depend on, as plain data.
        block: lines that are translated together.
        resume: continue the file of an earlier process; otherwise start again.

    Raises:
        HeedError: if the file was written with other settings, is being written, or is a device to be continued.
    """
    if is_device(path):
        if resume:
            raise HeedError(f"--resume continues a file, and {path} is a device or a pipe.")
        with writing(path), path.open("wb") as file:
            yield functools.partial(_write, file), 0
        return
    partial, sidecar = (path.with_name(f"{path.name}.{suffix}") for suffix in ("partial", "partial.json"))
    with _locked(path):
        done = 0
        if resume and partial.exists() and sidecar.exists():
            saved, own = json.loads(sidecar.read_text(encoding="utf-8")), json.loads(json.dumps(settings))
            if changed := sorted(name for name in {**saved, **own} if saved.get(name) != own.get(name)):
                raise HeedError(
                    f"{partial} was written with another value of {', '.join(changed)}: give the same options and "
                    "files, or start again without --resume."
                )
            done = _keep_complete_blocks(partial, block)
        else:
            remove(partial)
            write_file(sidecar, json.dumps(settings))
        with writing(path), partial.open("ab") as file:
            yield functools.partial(_write, file), done
        replace(partial, path)
        remove(sidecar)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing the file within the block; raise a HeedError if one is writing it."""
    from filelock import FileLock, Timeout

    file = path.with_name(f"{path.name}.partial.lock")
    try:
        lock = FileLock(file, blocking=False).acquire()
    except Timeout as error:
        raise HeedError(
            f"{path} is being written by another process: wait until it ends, or name another file."
        ) from error
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):  # Windows: FileLock removes it
                file.unlink()


def _write(file: BinaryIO, lines: Iterable[str]) -> None:
    file.writelines(f"{line}\n".encode() for line in lines)
    file.flush()  # for a process that continues after a kill


def _keep_complete_blocks(file: Path, block: int) -> int:
    """Cut off what follows the last complete block of lines, and return the number of lines before."""
    done = size = position = 0  # of complete blocks
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            position += len(line)
            if line.endswith(b"\n") and number % block == 0:
                done, size = number, position
    os.truncate(file, size)
    return done
