"""Progress of long work on stderr: tqdm's bar on a terminal, a line now and then in a log file, nothing for short work.

In a notebook, one line of the cell's output is replaced. Only the first process of a run reports, and no child of
multiprocessing does. Standard output is never written to, except in notebooks.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar

Item = TypeVar("Item")
Advance = Callable[[int], None]
"""Reports progress. It is called with the number of bytes read since the last call."""

BAR_DELAY, BAR_INTERVAL = 1.0, 0.1
"""Seconds of work before a terminal shows a bar, and between two drawings of it."""
LINE_DELAY, LINE_INTERVAL = 10.0, 30.0
"""Seconds of work before a log file gets a line, and between two lines."""

_open: list[Any] = []
"""The bars of work that is not finished."""


@contextmanager
def progress_bar(
    description: str, *, total: float | None = None, unit: str, initial: float = 0, enabled: bool = True
) -> Iterator[Any]:
    """Yield a tqdm bar for what ``description`` says is done ("Encoding"): ``update(n)`` counts n more units as done.

    ``total`` and ``initial``, which was done before this process started, are in units. ``unit`` is a plural noun, or
    "B" for bytes, which are printed as kB, MB and so on.
    """
    from tqdm import tqdm  # slow to import

    stream = _stream() if enabled else None
    form: dict[str, Any] = {"file": stream, "delay": BAR_DELAY, "mininterval": BAR_INTERVAL, "dynamic_ncols": True}
    if is_log := stream is not None and not (_is_notebook(stream) or _is_terminal(stream)):
        form = {"file": _LogFile(), "delay": LINE_DELAY, "mininterval": LINE_INTERVAL, "ncols": 0, "position": 0}
    if _is_notebook(stream):  # the work inside other work shares its line
        form |= {"file": _open[0].fp if _open else _NotebookLine(), "dynamic_ncols": False, "ncols": 0, "position": 0}
    form |= {"unit": unit, "unit_scale": unit == "B", "miniters": 0, "smoothing": 0, "disable": stream is None}
    # leave=None: the bar of work inside other work is erased at the end.
    bar = tqdm(desc=description, total=total, initial=initial, leave=None, **form)
    if is_log:
        bar.last_print_t -= LINE_INTERVAL - LINE_DELAY  # the first line is due after LINE_DELAY
    _open.append(bar)
    try:
        yield bar
    finally:
        _open.remove(bar)
        bar.close()


class _LogFile:
    """Stderr where it is a log file: each report of tqdm becomes a line."""

    def write(self, text: str) -> None:
        if report := text.strip():
            _print(report)


class _NotebookLine:
    """A line in the output of a notebook's cell, which each report of tqdm replaces, also in the saved notebook."""

    def __init__(self) -> None:
        self._display: Any = None

    def write(self, text: str) -> None:
        from IPython.display import display

        if not (report := text.strip()):
            return
        if self._display is None:
            self._display = display({"text/plain": report}, raw=True, display_id=True)
        else:
            self._display.update({"text/plain": report}, raw=True)


def track(items: Collection[Item], description: str, *, unit: str) -> Iterator[Item]:
    """Yield the items, and report how many have been used."""
    with progress_bar(description, total=len(items), unit=unit) as bar:
        for item in items:
            yield item
            bar.update()


@contextmanager
def announced(description: str, size: str, *, expected_seconds: float) -> Iterator[None]:
    """Print a line before a call that reports no progress itself, and its duration after it, unless it is short.

    ``description`` is like "Training the tokenizer", ``size`` like "4,500,000 sentences".
    """
    from tqdm import tqdm

    start, is_expected_long = time.monotonic(), expected_seconds >= LINE_DELAY / 2
    if is_expected_long:
        print_line(f"{description}: {size} …")
    yield
    seconds = time.monotonic() - start
    if is_expected_long or seconds >= LINE_DELAY:
        print_line(f"{description}: {size} in {tqdm.format_interval(seconds)}")


def print_line(line: str) -> None:
    """Print a line above the bars, if there are any."""
    for bar in _open:
        bar.clear()
    _print(line)


def reports_on_terminal() -> bool:
    """Return whether this process reports to a terminal, so that libraries may draw their own bars."""
    stream = _stream()
    return stream is not None and _is_terminal(stream)


def is_first_process() -> bool:
    """Return whether the environment names this process as the first one of its run, or the only one.

    The variables are those of torchrun, Lightning and SLURM, as in Lightning's ``rank_zero_only``.
    """
    ranks = ("RANK",) if "RANK" in os.environ else ("LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") in ("0", "") for name in ranks)


def _stream() -> TextIO | None:
    """Return where to report: stderr, or a notebook's stdout; None if it is closed or another process reports."""
    # Notebooks show stderr in red, as if something had failed.
    stream: TextIO | None = sys.stdout if _is_notebook(sys.stderr) else sys.stderr  # None if it is closed
    if stream is None or stream.closed or not is_first_process():
        return None
    from multiprocessing import parent_process

    return None if parent_process() else stream


def _is_notebook(stream: TextIO | None) -> bool:
    """Return whether a stream is shown below a cell."""
    return type(stream).__module__.startswith("ipykernel.")


def _is_terminal(stream: TextIO) -> bool:
    """Return whether a line on the stream can be overwritten."""
    with suppress(OSError, ValueError):
        if os.get_terminal_size(stream.fileno()).columns == 0:  # some containers: tqdm would draw nothing
            return False
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _print(line: str) -> None:
    """Print a line. A full disk or a closed terminal does not stop the work."""
    with suppress(OSError, ValueError):
        if stream := _stream():
            print(line, file=stream, flush=True)
