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
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from heed import progress
from heed.progress import announced, print_line, progress_bar, reports_on_terminal, track
from tests import forkserver

Stream = TypeVar("Stream", bound=io.TextIOBase)


class Terminal(io.StringIO):
    """A stream that is a terminal of 80 columns, the width without a file descriptor."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        """The lines that a terminal would show."""
        lines, row = [""], 0
        for part in re.split(r"(\r|\n|\x1b\[A)", self.getvalue()):
            if part == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif part == "\x1b[A":
                row -= 1
            elif part != "\r" and part:
                lines[row] = part.rstrip() + lines[row][len(part) :]
        return "\n".join(lines).rstrip("\n").split("\n")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``clock(seconds)`` lets time pass, which stands still otherwise."""
    now = 1000.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("tqdm.std.time", lambda: now)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
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
        "Encoding:  16% 160/1000 [00:10<00:52, 16.00pairs/s]",
        "Encoding:  64% 640/1000 [00:40<00:22, 16.00pairs/s]",
        "Encoding: 100% 1000/1000 [01:02<00:00, 16.00pairs/s]",
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
    with progress_bar("Translating", unit="lines") as bar:
        clock(20)
        bar.update(3000)
    assert log.getvalue().splitlines() == [
        "Translating: 3000lines [00:20, 150.00lines/s]",
        "Translating: 3000lines [00:20, 150.00lines/s]",
    ]


def test_bytes_and_resumed_work(clock: Callable[[float], None], log: io.StringIO) -> None:
    with progress_bar("Reading a.en", total=4e9, unit="B") as reading:
        clock(20)
        reading.update(1e9)
    with progress_bar("Training", total=1000, unit="steps", initial=900) as training:
        training.set_postfix_str("loss 3.2", refresh=False)
        clock(20)
        training.update(50)
    read, _, trained, _ = log.getvalue().splitlines()
    assert read == "Reading a.en:  25% 1.00G/4.00G [00:20<01:00, 50.0MB/s]"
    assert trained == "Training:  95% 950/1000 [00:20<00:20,  2.50steps/s, loss 3.2]"


def test_a_terminal_shows_a_bar_that_stays(clock: Callable[[float], None], terminal: Terminal) -> None:
    with progress_bar("Encoding", total=1000, unit="pairs") as bar:
        bar.update(100)
        assert terminal.getvalue() == ""
        clock(2)
        bar.update(400)
        assert terminal.screen == ["Encoding:  50%|█████     | 500/1000 [00:02<00:02, 250.00pairs/s]"]
        drawn = terminal.getvalue()
        bar.update(1)
        assert terminal.getvalue() == drawn, "not drawn twice within an instant"
    assert terminal.screen == ["Encoding:  50%|█████     | 501/1000 [00:02<00:01, 250.50pairs/s]"]


def test_inner_work_has_a_bar_of_its_own_and_lines_stand_above(
    clock: Callable[[float], None], terminal: Terminal
) -> None:
    with progress_bar("Training", total=10, unit="steps") as training:
        clock(2)
        training.update()
        with progress_bar("Decoding valid", total=4, unit="tokens") as decoding:
            clock(2)
            decoding.update(2)
            assert [line[:19] for line in terminal.screen] == ["Training:  10%|█   ", "Decoding valid:  50%"[:19]]
            print_line("a line")
            assert terminal.screen == ["a line"]
        clock(2)
        training.update()
        assert [line[:14] for line in terminal.screen] == ["a line", "Training:  20%"]
        print_line("valid: BLEU 20")
        assert terminal.screen == ["a line", "valid: BLEU 20"]
        clock(2)
        training.update()
        assert terminal.screen[2].startswith("Training:  30%")


def test_after_an_exception_the_bar_shows_where_the_work_ended(
    clock: Callable[[float], None], terminal: Terminal
) -> None:
    def fail() -> None:
        with progress_bar("Encoding", total=10, unit="pairs") as bar:
            clock(2)
            bar.update()
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert len(terminal.screen) == 1
    assert terminal.getvalue().endswith("\n")
    assert terminal.screen[0].startswith("Encoding:  10%")
    assert not progress._open


def test_a_call_without_progress_is_announced(clock: Callable[[float], None], log: io.StringIO) -> None:
    with announced("Training the tokenizer", "900,000 sentences", expected_seconds=50):
        assert log.getvalue() == "Training the tokenizer: 900,000 sentences …\n"
        clock(42)
    assert log.getvalue().splitlines()[1:] == ["Training the tokenizer: 900,000 sentences in 00:42"]
    with announced("Computing COMET", "10 sentences", expected_seconds=0):
        clock(20)
    assert log.getvalue().splitlines()[2:] == ["Computing COMET: 10 sentences in 00:20"]


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_only_the_first_process_reports(
    clock: Callable[[float], None], log: io.StringIO, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for rank, lines in ("1", 0), ("0", 2):
        monkeypatch.setenv(name, rank)
        with progress_bar("Encoding", total=10, unit="pairs") as bar:
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
    assert "parent: 100% 3/3" in done.stderr
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


COLUMNS = 150


def test_a_pseudo_terminal_shows_bars_of_its_width_and_one_without_a_size_gets_lines(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        _as_stderr(monkeypatch, stream)
        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        assert reports_on_terminal()
        with progress_bar("Training", total=8, unit="steps") as bar:
            clock(2)
            bar.update(4)
        shown = os.read(master, 65536).decode()
        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert not reports_on_terminal()
    os.close(master)
    bars = re.findall(r"\rTraining:  50%\|█+[▉-▏]? +\| 4/8 \[[^\r\n\x1b]*", shown)
    assert {len(bar) - 1 for bar in bars} == {COLUMNS - 1}


def test_a_notebook_shows_one_line_that_is_replaced_and_never_cut(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """IPython's display is not among heed's dependencies: this stands for the outputs of a cell that it fills."""
    outputs: list[str] = []

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> SimpleNamespace:
        outputs.append(data["text/plain"])
        row = len(outputs) - 1
        return SimpleNamespace(update=lambda data, raw: outputs.__setitem__(row, data["text/plain"]))

    class Cell(io.StringIO):
        __module__ = "ipykernel.iostream"

    stdout, stderr = Cell(), Cell()
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stdout=stdout, stderr=stderr))
    with progress_bar("Training", total=10, unit="steps") as training:
        training.set_postfix_str("loss 2.345, " + "x" * 90, refresh=False)
        clock(2)
        training.update()
        assert outputs == ["Training:  10% 1/10 [00:02<00:18,  2.00s/steps, loss 2.345, " + "x" * 90 + "]"]
        with progress_bar("Decoding valid", total=4, unit="tokens") as decoding:
            clock(2)
            decoding.update(2)
            assert [line[:19] for line in outputs] == ["Decoding valid:  50"]
        print_line("step 1")
        clock(2)
        training.update()
        assert [line[:14] for line in outputs] == ["Training:  20%"]
    with progress_bar("Decoding test", total=4, unit="tokens") as decoding:
        clock(2)
        decoding.update(4)
    assert [line[:14] for line in outputs] == ["Training:  20%", "Decoding test:"]
    assert (stdout.getvalue(), stderr.getvalue()) == ("step 1\n", "")
