"""COMET by the program ``comet-score``: what it is given, what is read from its file, and what is missing."""

from pathlib import Path

import numpy as np
import pytest

from heed.errors import HeedError
from heed.evaluation.comet import comet
from heed.evaluation.scores import SystemOutput
from tests.evaluation.comet_program import VERSION, expected_score, install_comet, save_comet

pytestmark = pytest.mark.posix("the program of the tests is a script")

SOURCES = ["a man rides a bike .", "the dog sleeps .", "x"]
HYPOTHESES = ["Ein Mann\u2028fährt Rad.", "Ein Hund schläft!", ""]
REFERENCES = [["Ein Mann fährt Fahrrad.", "Der Hund schläft.", "y"], ["Er fährt Rad.", "Der\rHund", "nein"]]
OUTPUT = SystemOutput(hypotheses=HYPOTHESES, references=REFERENCES, sources=SOURCES)


def test_the_score_is_the_mean_over_sentences_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_comet(tmp_path, monkeypatch)
    rows = [
        row
        for refs in REFERENCES
        for row in zip(SOURCES, HYPOTHESES, [ref.replace("\r", " ") for ref in refs], strict=True)
    ]
    expected = np.mean([expected_score(*row) for row in rows])
    folder = save_comet(tmp_path / "comet")
    for name in (folder, folder / "checkpoints" / "model.ckpt", "Unbabel/wmt22-comet-da"):
        found = comet(OUTPUT, name=str(name))
        assert found.value == pytest.approx(expected, abs=1e-12)
        assert found.signature == f"nrefs:2|model:{name}|unbabel-comet:{VERSION}"


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as empty:
        empty.setenv("PATH", str(tmp_path))
        with pytest.raises(HeedError, match=r"program comet-score, which is not on PATH: .* `uv tool install unbabel-"):
            comet(OUTPUT)
    install_comet(tmp_path, monkeypatch)
    message = (
        r"^comet-score cannot score with COMET some/model \(KeyError: \"Model 'some/model' not supported by COMET.\"\):"
        r" .* fetch it with `hf download some/model`\.$"
    )
    with pytest.raises(HeedError, match=message):
        comet(OUTPUT, name="some/model")
    with pytest.raises(HeedError, match="COMET needs the source sentences"):
        comet(SystemOutput(hypotheses=["a"], references=[["a"]]))
