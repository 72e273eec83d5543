"""The progress that the commands report about long input: on stderr, never on standard output."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heed import progress
from heed.inference import model_folder
from heed.models.seq2seq import Seq2Seq
from tests.tokenizers import train_tokenizer

LINES = ["a man rides a bike .", "", "the dog sleeps .", "two children play with a red ball in the park ."]
SEARCH = {"beam": 1, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3}


@pytest.fixture
def run(tmp_path: Path, tiny_model: Callable[..., Seq2Seq], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and the file ``text``. Everything is reported at once."""
    tokenizer = train_tokenizer(LINES, vocab_size=60)
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    model_folder.save(tmp_path / "model", model, tokenizer, extra={"search": SEARCH})
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES))
    for name in ("LINE_DELAY", "LINE_INTERVAL", "BAR_DELAY", "BAR_INTERVAL"):
        monkeypatch.setattr(progress, name, 0.0)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "inputs", "reported"),
    [
        ("translate", [], ["Translating: 4lines ["]),
        ("score", ["--src", "--tgt"], ["Scoring: 100% 4/4 ["]),
        ("align", ["--src", "--tgt"], ["Aligning: 100% 4/4 ["]),
        (
            "evaluate",
            ["--src", "--ref"],
            ["Translating: 100% 4/4 [", "Computing TER: 4 sentences …"],
        ),
    ],
)
def test_long_input_is_reported_and_the_results_are_the_same(
    run: Path,
    heed: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    inputs: list[str],
    reported: list[str],
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
    run: Path, heed: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((run / "text").read_bytes())))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, printed, errors = heed("translate", "--model", run)
    assert len(printed.splitlines()) == len(LINES)
    assert "Translating" not in errors
