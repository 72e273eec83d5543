"""Output files of long work that an interrupted command can continue."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from heed.compat import replace
from heed.errors import HeedError
from heed.files import is_device, remove, write_file, writing


class ResumableOutput:
    """A file with one line for each line of the input.

    Until it is complete it is named ``FILE.partial``, beside ``FILE.partial.json`` with the settings that it is written
    with. A killed process leaves both; the next one continues after the last complete block of lines, so that the file
    is the same as without the interruption.

    Args:
        path: the complete file. Into a device such as /dev/stdout, the lines are written directly.
        settings: what the lines depend on, as plain data.
        block: lines that are translated together.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, block: int) -> None:
        self.path = path
        self.settings = json.loads(json.dumps(settings))
        self.block = block
        self.partial = path.with_name(f"{path.name}.partial")
        self.sidecar = path.with_name(f"{path.name}.partial.json")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing the file within the block; raise a HeedError if one is writing it."""
        from filelock import FileLock, Timeout

        file = self.path.with_name(f"{self.path.name}.partial.lock")
        try:
            lock = FileLock(file, blocking=False).acquire()
        except Timeout as error:
            raise HeedError(
                f"{self.path} is being written by another process: wait until it ends, or name another file."
            ) from error
        with lock:
            try:
                yield
            finally:
                with suppress(OSError):  # Windows: FileLock removes it
                    file.unlink()

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[tuple[BinaryIO, int]]:
        """Yield the unfinished file, and how many lines of the input it has; if the block succeeds, give it its name.

        Args:
            resume: continue the file of an earlier process; otherwise start again.

        Raises:
            HeedError: if the file was written with other settings, is being written, or is a device to be continued.
        """
        if is_device(self.path):
            if resume:
                raise HeedError(f"--resume continues a file, and {self.path} is a device or a pipe.")
            with writing(self.path), self.path.open("wb") as file:
                yield file, 0
            return
        with self.locked():
            done = 0
            if resume and self.partial.exists() and self.sidecar.exists():
                done = self._keep_complete_blocks()
            else:
                remove(self.partial)
                write_file(self.sidecar, json.dumps(self.settings))
            with writing(self.path), self.partial.open("ab") as file:
                yield file, done
            replace(self.partial, self.path)
            remove(self.sidecar)

    def _keep_complete_blocks(self) -> int:
        """Cut off what follows the last complete block, and return the number of lines before."""
        saved = json.loads(self.sidecar.read_text(encoding="utf-8"))
        if changed := sorted(name for name in {**saved, **self.settings} if saved.get(name) != self.settings.get(name)):
            raise HeedError(
                f"{self.partial} was written with another value of {', '.join(changed)}: give the same options and "
                "files, or start again without --resume."
            )
        done = size = position = 0  # of complete blocks
        with self.partial.open("rb") as file:
            for number, line in enumerate(file, start=1):
                position += len(line)
                if line.endswith(b"\n") and number % self.block == 0:
                    done, size = number, position
        os.truncate(self.partial, size)
        return done
