"""The progress of long work: bars on a terminal, lines in a log file, silence otherwise."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from heed import progress
from heed.progress import Progress, announced, duration, print_line, track
from tests import forkserver

Stream = TypeVar("Stream", bound=io.StringIO)


class Terminal(io.StringIO):
    """A stream that is a terminal of 80 columns, the width without a file descriptor."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        """The lines that a terminal would show."""
        lines = self.getvalue().split("\n")
        return [line.rsplit("\r\033[K", 1)[-1] for line in lines]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``clock(seconds)`` lets time pass, which stands still otherwise."""
    now = 1000.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(progress, "clock", lambda: now)
    return advance


@pytest.fixture(autouse=True)
def only_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    return _as_stderr(monkeypatch, io.StringIO())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return _as_stderr(monkeypatch, Terminal())


def _as_stderr(monkeypatch: pytest.MonkeyPatch, stream: Stream) -> Stream:
    """Let a stream be the stderr of the module only, because pytest replaces sys.stderr after the fixtures."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


def test_a_log_gets_a_line_after_ten_seconds_then_every_thirty_and_a_last_one(
    clock: Callable[[float], None], log: io.StringIO
) -> None:
    for _ in track(range(1000), "Encoding", unit="pairs"):
        clock(0.0625)
    assert log.getvalue().splitlines() == [
        "Encoding: 16%, 160/1,000 pairs, 16 pairs/s, 0:10, about 0:52 left",
        "Encoding: 64%, 640/1,000 pairs, 16 pairs/s, 0:40, about 0:22 left",
        "Encoding: 1,000 pairs in 1:02, 16 pairs/s",
    ]


def test_short_work_writes_nothing(
    clock: Callable[[float], None], log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        for _ in track(range(9), "Encoding", unit="pairs"):
            clock(0.1)
        with announced("Training the tokenizer", "9 sentences", expected_seconds=1):
            clock(1)

    work()
    assert log.getvalue() == ""
    terminal = _as_stderr(monkeypatch, Terminal())
    work()
    assert terminal.getvalue() == ""


def test_an_unknown_total_shows_count_and_rate(clock: Callable[[float], None], log: io.StringIO) -> None:
    with Progress("Translating", unit="lines") as bar:
        clock(20)
        bar.update(3000)
    assert log.getvalue().splitlines() == [
        "Translating: 3,000 lines, 150 lines/s, 0:20",
        "Translating: 3,000 lines in 0:20, 150 lines/s",
    ]


def test_bytes_resumed_work_and_time_limits(clock: Callable[[float], None], log: io.StringIO) -> None:
    with Progress("Reading a.en", total=4e9, unit="B") as reading:
        clock(20)
        reading.update(1e9)
    with Progress("Training", total=1000, unit="steps", initial=900) as training:
        training.time_limit = lambda: 5.0
        training.note = "loss 3.2"
        clock(20)
        training.update_to(950)
    read, _, trained, _ = log.getvalue().splitlines()
    assert read == "Reading a.en: 25%, 1.0 GB/4.0 GB, 50 MB/s, 0:20, about 1:00 left"
    # 50 steps in 20 s, so 50 more would take 20 s, but the run ends in 5 s.
    assert trained == "Training: 95%, 950/1,000 steps, 2.5 steps/s, 0:20, about 0:05 left, loss 3.2"


def test_a_terminal_shows_a_bar_that_fits_and_stays(clock: Callable[[float], None], terminal: Terminal) -> None:
    with Progress("Encoding", total=1000, unit="pairs") as bar:
        bar.update(100)
        assert terminal.getvalue() == ""
        clock(2)
        bar.update(400)
        (shown,) = terminal.screen
        assert shown.startswith("Encoding:  50%|██")
        assert shown.endswith("| 500/1,000 pairs [0:02<0:02, 250 pairs/s]")
        assert len(shown) == 79
        drawn = terminal.getvalue()
        bar.update(1)
        assert terminal.getvalue() == drawn, "not drawn twice within an instant"
    assert terminal.screen == ["Encoding: 501 pairs in 0:02, 250 pairs/s", ""]


def test_texts_that_leave_no_room_for_the_bar_and_braces(clock: Callable[[float], None], terminal: Terminal) -> None:
    with Progress("Reading {a} " + "long" * 30, total=10, unit="pairs") as bar:
        clock(2)
        bar.update(5)
        assert terminal.screen[0].startswith("Reading {a} longlong")
        assert len(terminal.screen[0]) == 79


def test_inner_work_hides_the_outer_bar_and_lines_stand_above(
    clock: Callable[[float], None], terminal: Terminal
) -> None:
    with Progress("Training", total=10, unit="steps") as training:
        clock(2)
        training.update()
        with Progress("Decoding valid", total=4, unit="tokens") as decoding:
            clock(2)
            decoding.update(2)
            training.update()
            assert len(terminal.screen) == 1
            assert terminal.screen[0].startswith("Decoding valid:  50%")
        assert terminal.screen == [""], "the bar of inner work is erased"
        clock(2)
        training.update()
        print_line("valid: BLEU 20")
        assert terminal.screen == ["valid: BLEU 20", ""]
        clock(2)
        training.update()
        assert terminal.screen[1].startswith("Training:  40%")


def test_an_exception_erases_the_bar(clock: Callable[[float], None], terminal: Terminal) -> None:
    def fail() -> None:
        with Progress("Encoding", total=10, unit="pairs") as bar:
            clock(2)
            bar.update()
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert terminal.screen == [""]
    assert not progress._open


def test_a_call_without_progress_is_announced(clock: Callable[[float], None], log: io.StringIO) -> None:
    with announced("Training the tokenizer", "900,000 sentences", expected_seconds=50):
        assert log.getvalue() == "Training the tokenizer: 900,000 sentences …\n"
        clock(42)
    assert log.getvalue().splitlines()[1:] == ["Training the tokenizer: 900,000 sentences in 0:42"]
    with announced("Computing COMET", "10 sentences", expected_seconds=0):
        clock(20)
    assert log.getvalue().splitlines()[2:] == ["Computing COMET: 10 sentences in 0:20"]


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_only_the_first_process_reports(
    clock: Callable[[float], None], log: io.StringIO, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for rank, lines in ("1", 0), ("0", 2):
        monkeypatch.setenv(name, rank)
        with Progress("Encoding", total=10, unit="pairs") as bar:
            clock(20)
            bar.update()
        assert len(log.getvalue().splitlines()) == lines


def test_children_of_multiprocessing_report_nothing(tmp_path: Path) -> None:
    # fmt: off
    done = _python(tmp_path, "import multiprocessing\n"
                   "if __name__ == '__main__':\n"
                   "    child = multiprocessing.get_context('fork').Process(target=work, args=('child',))\n"
                   "    child.start(); child.join(); work('parent')\n")
    # fmt: on
    assert "parent: 3 pairs in" in done.stderr
    assert "child" not in done.stderr
    assert not done.stdout


def test_a_closed_or_full_stderr_does_not_stop_the_work(tmp_path: Path) -> None:
    for end in ("2>&-", "2>/dev/full"):
        done = _python(tmp_path, "work('x'); print('done')", end)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def _python(folder: Path, code: str, redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Run code that may call ``work(name)``, which reports at every update."""
    script = folder / "script.py"
    script.write_text(
        "from heed import progress\n"
        "progress.LINE_DELAY = progress.LINE_INTERVAL = 0\n"
        "def work(name):\n"
        "    for _ in progress.track(range(3), name, unit='pairs'): pass\n" + code
    )
    return subprocess.run(
        f"'{forkserver.python()}' '{script}' {redirection}", shell=True, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3725, "1:02:05")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=16",
        "model.d_model=16", "trainer=cpu", "batching.batch_tokens=200", "trainer.validate_every=4",
        "trainer.log_every=2", "callbacks.attention_maps=null", "trainer.max_steps=8",
        "trainer.max_epochs=null"]  # fmt: skip


@pytest.mark.full
def test_a_log_of_a_run_has_lines_about_every_phase(
    run: Callable[..., Path], log: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "LINE_DELAY", 0.0)
    monkeypatch.setattr(progress, "LINE_INTERVAL", 0.0)
    run("logged", *TINY, f"cache_dir={tmp_path}/cache")
    lines = log.getvalue().splitlines()
    for phase in (
        "Generating the corpus",
        "Reading and cleaning",
        "Looking for duplicates",
        "Training the tokenizer",
        "Counting words",
        "Encoding",
        "Writing token ids",
        "Training",
        "Decoding valid",
        "Decoding test",
        "Decoding long",
    ):
        assert any(line.startswith(f"{phase}: ") and " in 0:" in line for line in lines), phase
    (about_training,) = (line for line in lines if line.startswith("Training: 100%, 8/8 steps"))
    assert re.search(r", loss \d+\.\d+, [\d,]+ tokens/s, epoch 0, lr \d\.\d+e-\d\d$", about_training)
    assert "\r" not in log.getvalue()
    # All of a set was decoded, so the totals are right.
    assert any(line.startswith("Decoding long: 100%") for line in lines)
    assert not progress._open


@pytest.mark.full
def test_a_pseudo_terminal_shows_bars(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BAR_DELAY", 0.0)
    monkeypatch.setattr(progress, "BAR_INTERVAL", 0.0)
    with PseudoTerminal() as (stream, read):
        monkeypatch.setattr(sys, "stderr", stream)
        run("shown", *TINY)
        shown = read()
    assert re.search(r"\r\x1b\[KTraining:  50%\|█+[▉-▏]? +\| 4/8 steps \[", shown)
    assert re.search(r"\r\x1b\[KDecoding test: 100%\|█+\| ", shown)
    assert re.search(r"\r\x1b\[Kstep +4  epoch", shown)
    assert max(len(line) for line in re.findall(r"\r\x1b\[K(.+?)(?=\r)", shown) if "%|" in line) == COLUMNS - 1


COLUMNS = 150


class PseudoTerminal:
    """A stream that is a real terminal, and a function that returns what was written to it."""

    def __enter__(self) -> tuple[io.TextIOWrapper, Callable[[], str]]:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.written: list[bytes] = []
        self.reader = threading.Thread(target=lambda: self.written.extend(_chunks(self.master)), daemon=True)
        self.reader.start()
        return self.stream, self.read

    def read(self) -> str:
        self.stream.close()
        self.reader.join(timeout=10)
        return b"".join(self.written).decode()

    def __exit__(self, *_: object) -> None:
        if not self.stream.closed:
            self.stream.close()
        os.close(self.master)


def _chunks(descriptor: int) -> Iterator[bytes]:
    try:
        while chunk := os.read(descriptor, 65536):
            yield chunk
    except OSError:  # the other end is closed
        return
