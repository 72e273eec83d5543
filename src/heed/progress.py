"""Progress of long work on stderr: a bar on a terminal, a line now and then in a log file, nothing for short work.

Only the first process of a run reports, and no child of multiprocessing does. Standard output is never written to.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TextIO, TypeVar

Item = TypeVar("Item")

BAR_DELAY = 1.0
"""Seconds of work before a terminal shows a bar."""
BAR_INTERVAL = 0.1
"""Seconds between two drawings of a bar."""
LINE_DELAY = 10.0
"""Seconds of work before a log file gets a line."""
LINE_INTERVAL = 30.0
"""Seconds between two lines in a log file."""
MIN_BAR = 8
"""Columns of the shortest bar. Where there is less room, only the text is shown."""

clock = time.monotonic

_open: list["Progress"] = []
"""The progress contexts that are open, outermost first. Only the innermost draws a bar."""


class Progress:
    """A context manager that reports how much of some work is done, how fast it is and how long the rest will take.

    Args:
        description: what is done: "Encoding".
        total: the whole work in units; None if unknown.
        unit: plural noun; "B" for bytes, which are printed as kB, MB and so on.
        initial: units done before this process started.
        enabled: whether to report at all.
    """

    def __init__(
        self, description: str, *, total: float | None = None, unit: str, initial: float = 0, enabled: bool = True
    ) -> None:
        self.description = description
        self.total = total
        self.unit = unit
        self.count = initial
        self.note = ""
        """Appended to every report."""
        self.time_limit: Callable[[], float] | None = None
        """Returns the seconds after which the work ends whatever is done; None: no such limit."""
        self._initial = initial
        self._stream = report_stream() if enabled else None
        self._is_terminal = self._stream is not None and _is_terminal(self._stream)
        self._is_drawn = False
        self._has_reported = False
        self._start = clock()
        self._due = self._start + (BAR_DELAY if self._is_terminal else LINE_DELAY)
        if self._stream is None:
            self._due = float("inf")

    def start(self) -> "Progress":
        """Start the reports without a ``with`` statement, and return this object. `close` ends them."""
        _open.append(self)
        return self

    def __enter__(self) -> "Progress":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finished=kind is None)

    def update(self, done: float = 1) -> None:
        """Count more units as done."""
        self.count += done
        if clock() >= self._due:
            self.report()

    def update_to(self, count: float) -> None:
        """Set the number of units that are done."""
        self.update(count - self.count)

    def report(self) -> None:
        """Draw the bar or write a line now."""
        if not self._is_terminal:
            self._write(f"{self._line()}\n")
            self._due = clock() + LINE_INTERVAL
        elif _open[-1:] == [self]:
            self._write(f"\r\033[K{self._bar()}")
            self._is_drawn = True
            self._due = clock() + BAR_INTERVAL
        self._has_reported = True

    def clear(self) -> None:
        """Erase the bar until the next report."""
        if self._is_drawn:
            self._write("\r\033[K")
            self._is_drawn = False

    def close(self, *, finished: bool = True) -> None:
        """End the reports, with a line about the whole work if it took long. Closing twice has no effect.

        The bar of work inside other work is erased, because the outer bar follows.

        Args:
            finished: False after an exception: the bar is erased.
        """
        if self not in _open:
            return
        is_inner = _open[0] is not self
        _open.remove(self)
        self.clear()
        is_long = self._has_reported if self._is_terminal else self._seconds >= LINE_DELAY
        if finished and is_long and not (is_inner and self._is_terminal):
            done = f"{self._amount(self.count - self._initial)} in {duration(self._seconds)}"
            self._write(f"{self.description}: {', '.join(filter(None, (done, self._rate())))}\n")

    # ---- text

    def _line(self) -> str:
        """The report in a log file."""
        left = self._seconds_left()
        parts = [
            f"{self._fraction:.0%}" if self.total else "",
            self._amounts(),
            self._rate(),
            duration(self._seconds) + (f", about {duration(left)} left" if left is not None else ""),
            self.note,
        ]
        return f"{self.description}: {', '.join(filter(None, parts))}"

    def _bar(self) -> str:
        """The report on a terminal, which fits into one line; the notation is that of tqdm."""
        assert self._stream is not None
        width, left = _width(self._stream), self._seconds_left()
        times = duration(self._seconds) + (f"<{duration(left)}" if left is not None else "")
        details = f"{self._amounts()} [{', '.join(filter(None, (times, self._rate(), self.note)))}]"
        start = f"{self.description}: "
        if not self.total:
            return f"{start}{details}"[:width]
        start += f"{self._fraction:4.0%}"
        if len(start) + len(details) + MIN_BAR > width:
            return f"{start} {details}"[:width]
        from tqdm import tqdm

        is_unicode = "utf" in (self._stream.encoding or "").lower()
        return str(
            tqdm.format_meter(
                min(self.count, self.total),
                self.total,
                self._seconds,
                ncols=width,
                ascii=not is_unicode,
                bar_format="{start}|{bar}| {details}",
                start=start,
                details=details,
            )
        )

    @property
    def _fraction(self) -> float:
        """The fraction done. A total may be an estimate that is too small."""
        return min(self.count / self.total, 1.0) if self.total else 0.0

    def _amounts(self) -> str:
        if not self.total:
            return self._amount(self.count)
        of = _bytes if self.unit == "B" else "{:,.0f}".format
        return f"{of(min(self.count, self.total))}/{self._amount(self.total)}"  # the total may be an estimate

    def _amount(self, count: float) -> str:
        return _bytes(count) if self.unit == "B" else f"{count:,.0f} {self.unit}"

    def _rate(self) -> str:
        """The units per second; "" before anything is done."""
        done = self.count - self._initial
        if done <= 0 or self._seconds <= 0:
            return ""
        rate = done / self._seconds
        if self.unit == "B":
            return f"{_bytes(rate)}/s"
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.2g} {self.unit}/s"

    @property
    def _seconds(self) -> float:
        """Seconds since the start."""
        return clock() - self._start

    def _seconds_left(self) -> float | None:
        """The estimate of the remaining seconds; None if there is none."""
        done, left = self.count - self._initial, []
        if self.total and done > 0:
            left.append(max(self.total - self.count, 0) * self._seconds / done)
        if self.time_limit:
            left.append(max(self.time_limit(), 0))
        return min(left, default=None)

    def _write(self, text: str) -> None:
        if self._stream is not None and not _write(self._stream, text):
            self._stream, self._due = None, float("inf")


def track(
    items: Iterable[Item], description: str, *, total: float | None = None, unit: str, enabled: bool = True
) -> Iterator[Item]:
    """Yield the items, and report how many have been used. The total is their number, if they have a length."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(description, total=total, unit=unit, enabled=enabled) as bar:
        for item in items:
            yield item
            bar.update()


@contextmanager
def announced(description: str, size: str, *, expected_seconds: float) -> Iterator[None]:
    """Print a line before a call that reports no progress itself, and its duration after it, unless it is short.

    Args:
        description: what is done: "Training the tokenizer".
        size: of the work: "4,500,000 sentences".
        expected_seconds: a rough estimate of the duration.
    """
    start, is_expected_long = clock(), expected_seconds >= LINE_DELAY / 2
    if is_expected_long:
        print_line(f"{description}: {size} …")
    yield
    seconds = clock() - start
    if is_expected_long or seconds >= LINE_DELAY:
        print_line(f"{description}: {size} in {duration(seconds)}")


def print_line(line: str) -> None:
    """Print a line to stderr above the bar, if there is one."""
    for bar in _open:
        bar.clear()
    if stream := report_stream():
        _write(stream, f"{line}\n")


def report_stream() -> TextIO | None:
    """Return stderr; None if it is closed or another process reports."""
    stream: TextIO | None = sys.stderr  # None if it is closed
    if stream is None or stream.closed or not is_first_process():
        return None
    from multiprocessing import parent_process

    return None if parent_process() else stream


def reports_on_terminal() -> bool:
    """Return whether this process reports to a terminal, so that libraries may draw their own bars."""
    stream = report_stream()
    return stream is not None and _is_terminal(stream)


def _write(stream: TextIO, text: str) -> bool:
    """Return whether the text could be written. A full disk or a closed terminal must not stop the work."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        return False
    return True


def is_first_process() -> bool:
    """Return whether the environment names this process as the first one of its run, or the only one.

    The variables are those of torchrun, Lightning and SLURM, as in Lightning's ``rank_zero_only``.
    """
    ranks = ("RANK",) if "RANK" in os.environ else ("LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") in ("0", "") for name in ranks)


def duration(seconds: float) -> str:
    """Format seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bytes(count: float) -> str:
    for prefix in ("", "k", "M"):
        if count < 999.5:
            return f"{count:.3g} {prefix}B"
        count /= 1000
    return f"{count:,.1f} GB"


def _is_terminal(stream: TextIO) -> bool:
    """Return whether a line on the stream can be overwritten."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _width(stream: TextIO) -> int:
    """Return the columns of the terminal, without the last one, after which some terminals start a new line."""
    try:
        # shutil.get_terminal_size asks stdout, which may be a file.
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return (columns or 80) - 1
