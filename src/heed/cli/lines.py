"""Read and write text line by line, as UTF-8 whatever the locale; continue a file after an interruption."""

import functools
import json
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from heed.compat import WINDOWS, replace
from heed.errors import HeedError
from heed.files import is_device, remove, write_file, writing
from heed.progress import progress_bar

if TYPE_CHECKING:
    from heed.inference.translator import Translator

LINES_AT_ONCE = 1000
"""Input lines that are in memory, and sorted by length for batching, at a time."""

LINE_BYTES = 100_000
"""Longest accepted line. Longer ones come from files of another kind, or without line ends."""


def standard_input() -> BinaryIO:
    """Return the binary stream of standard input."""
    if sys.stdin is None:
        raise HeedError("Standard input is closed: give a file or a pipe to read from (< FILE).")
    return sys.stdin.buffer


PIPE_BYTES = 2**16
"""What is read from a pipe at a time: all that a pipe of Linux holds."""


class PipeReader:
    """Reads lines from a pipe as they come. Unlike a buffered stream, it knows whether the next one is complete."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._read = bytearray()
        """What was read and is not yet returned."""
        self._ended = False

    @classmethod
    def of(cls, stream: BinaryIO) -> "PipeReader | None":
        """Return a reader if a stream is a pipe or a socket. On Windows, `select` cannot wait for pipes: None."""
        try:
            mode = os.fstat(stream.fileno()).st_mode
        except OSError:  # not of the operating system
            return None
        return cls(stream.fileno()) if not WINDOWS and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) else None

    def readline(self, limit: int) -> bytes:
        while not self._has_line(limit):
            self._read_more()
        end = (self._read.find(b"\n", 0, limit) + 1) or limit
        line = bytes(self._read[:end])
        del self._read[:end]
        return line

    def is_ready(self) -> bool:
        """Return whether `readline` would not wait."""
        while not self._has_line(LINE_BYTES) and select.select([self._descriptor], [], [], 0)[0]:
            self._read_more()
        return self._has_line(LINE_BYTES)

    def _has_line(self, limit: int) -> bool:
        return self._ended or len(self._read) >= limit or b"\n" in self._read

    def _read_more(self) -> None:
        select.select([self._descriptor], [], [])  # the other program may have made the pipe non-blocking
        more = os.read(self._descriptor, PIPE_BYTES)
        self._read += more
        self._ended = not more


def read_file(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file; see `read_lines`. Other formats are refused."""
    from heed.data.text.formats.files import require_plain_text

    require_plain_text(path)
    with path.open("rb") as file:
        return list(read_lines(file, str(path)))


def read_parallel(*paths: Path) -> list[list[str]]:
    """Return the lines of UTF-8 files, or raise a HeedError if they are not equally many."""
    first, *others = files = [read_file(path) for path in paths]
    for path, lines in zip(paths[1:], others, strict=True):
        if len(lines) != len(first):
            raise HeedError(
                f"{paths[0]} has {len(first):,} lines and {path} {len(lines):,}: "
                "each line of one must belong to the same line of the other."
            )
    return files


def read_lines(stream: BinaryIO | PipeReader, name: str) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 stream, which messages call ``name``, without their ends (\n or \r\n).

    Raises:
        HeedError: if the stream is UTF-16, or a line is not UTF-8 or longer than `LINE_BYTES`.
    """
    for number, line in enumerate(iter(lambda: stream.readline(LINE_BYTES + 2), b""), start=1):
        if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise HeedError(f"{name} is UTF-16: convert it, for example with `iconv -f UTF-16 -t UTF-8`.")
        if len(line.rstrip(b"\r\n")) > LINE_BYTES:
            raise HeedError(
                f"Line {number} of {name} is longer than {LINE_BYTES:,} bytes: write one sentence per line."
            )
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise HeedError(
                f"Line {number} of {name} is not UTF-8 ({error.reason} at byte {error.start + 1}): "
                "decompress the text or convert it, for example with `iconv -f LATIN1 -t UTF-8`."
            ) from error


def read_text(stream: BinaryIO, name: str) -> str:
    """Return all of a stream, which messages call ``name``; raise a HeedError unless it is UTF-8."""
    try:
        return stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HeedError(
            f"{name} is not UTF-8 ({error.reason} at byte {error.start + 1}): convert it, for example with `iconv`."
        ) from error


def write_lines(lines: Iterable[str], *, needs_reader: bool = False) -> None:
    """Print lines as UTF-8 and flush after each. Paths that are not UTF-8 are written as their original bytes.

    If the program that reads them has ended, such as `head`, further lines are discarded and the command continues,
    because it may write files, too.

    Args:
        needs_reader: the command writes nothing else: raise a BrokenPipeError instead.
    """
    for line in lines:
        write_text(f"{line}\n", needs_reader=needs_reader)


def write_text(text: str, *, needs_reader: bool = False) -> None:
    """Print a text as it is, see `write_lines`."""
    try:
        with writing(Path("Standard output")):
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        if needs_reader:
            raise
        discard_output()


def discard_output() -> None:
    """Send output that cannot be written to /dev/null, so that Python does not try to write it again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def path_text(path: object) -> str:
    """Return a path as valid UTF-8 text for a page or JSON, with replacement characters where it is not UTF-8."""
    return os.fsencode(str(path)).decode(errors="replace")


@contextmanager
def translator_progress(
    translator: "Translator", description: str, *, total: int | None, initial: int = 0, prints_results: bool
) -> Iterator[None]:
    """Report on stderr how many lines the translator has processed inside the block.

    Args:
        total: the number of lines; None if unknown.
        initial: lines that an interrupted command has processed before.
        prints_results: results are printed meanwhile. A bar would be mixed with them, or with what the user types, so
            nothing is reported if stdin or stdout is a terminal.
    """
    interactive = prints_results and any(stream and stream.isatty() for stream in (sys.stdin, sys.stdout))
    with progress_bar(description, total=total, initial=initial, unit="lines", enabled=not interactive) as bar:
        done = float(initial)

        def advance(lines: float) -> None:  # a sentence is a fraction of its line
            nonlocal done
            done += lines
            bar.update(round(done) - bar.n)

        translator.on_batch = advance
        yield


# ---- output files of long work that an interrupted command can continue


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
