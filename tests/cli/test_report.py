"""``heed report``: the files it writes, and its errors."""

import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from heed.cli import main
from tests.report.runs import make_run


def test_a_page_is_written_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path / name) for name in ("a", "b c")]
    assert main(["report", *map(str, runs)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"Report: {run / 'report.html'}" for run in runs]
    assert all((run / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>") for run in runs)


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "Give either"),
    (["{folder}", "--serve", "{folder}"], "Give either"),
    (["{folder}"], "is not the folder of a run"),
    (["{folder}/none"], "is not the folder of a run"),
    (["--serve", "{folder}/none"], "There is no folder"),
    (["--serve", "{folder}", "--port", "99999"], "choose another one with --port"),
])  # fmt: skip
def test_mistakes_end_in_a_sentence(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *(word.format(folder=tmp_path) for word in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_runs_are_served_until_ctrl_c(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a")
    command = [sys.executable, "-m", "heed", "report", "--serve", str(tmp_path / "runs"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.partition("127.0.0.1:")[2].split()[0])
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        process.send_signal(2)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
