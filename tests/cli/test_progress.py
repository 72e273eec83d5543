"""The progress that the commands report about long input: on stderr, never on standard output."""

import io
import sys
from pathlib import Path

import pytest

from heed import progress
from tests.cli.models import LINES, SEARCH, Heed, TinyModel, save_model, write


@pytest.fixture
def run(tmp_path: Path, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and the file ``text``. Everything is reported at once."""
    save_model(tmp_path / "model", tiny_model, search={**SEARCH, "beam": 1})
    write(tmp_path / "text", LINES)
    for name in ("LINE_DELAY", "LINE_INTERVAL", "BAR_DELAY", "BAR_INTERVAL"):
        monkeypatch.setattr(progress, name, 0.0)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "inputs", "reported"),
    [
        ("translate", [], ["Translating: 4lines ["]),
        ("score", ["--src", "--tgt"], ["Scoring: 100% 4/4 ["]),
        ("align", ["--src", "--tgt"], ["Aligning: 100% 4/4 ["]),
        ("evaluate", ["--src", "--ref"], ["Translating: 100% 4/4 [", "Computing TER: 4 sentences …"]),
    ],
)
def test_long_input_is_reported_and_the_results_are_the_same(
    run: Path, heed: Heed, monkeypatch: pytest.MonkeyPatch, command: str, inputs: list[str], reported: list[str]
) -> None:
    arguments = [command, "--model", run, *(each for name in inputs for each in (name, run / "text"))]

    def execute() -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((run / "text").read_bytes())))
        return heed(*arguments)

    status, printed, errors = execute()
    assert status == 0, errors
    for line in reported:
        assert line in errors
    for name in ("LINE_DELAY", "LINE_INTERVAL"):
        monkeypatch.setattr(progress, name, 1000.0)
    status, again, errors = execute()
    assert (status, again) == (0, printed)
    assert not any(line in errors for line in reported)


def test_translations_on_a_terminal_are_not_mixed_with_a_bar(
    run: Path, heed: Heed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((run / "text").read_bytes())))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, printed, errors = heed("translate", "--model", run)
    assert len(printed.splitlines()) == len(LINES)
    assert "Translating" not in errors
