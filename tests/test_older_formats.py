"""Runs written by earlier versions of heed load, translate, score and compare as they did then.

The folder fixtures/format_1 holds a transformer and an RNN of format 1, and what that version answered for them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from heed.cli import main
from heed.inference import model_folder
from heed.inference.loading import load_models
from heed.inference.searches import build_search
from heed.inference.translator import Translator

FIXTURES = Path(__file__).parent / "fixtures" / "format_1"
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())
SOURCES = (FIXTURES / "source.txt").read_text().splitlines()
FAMILIES = ("transformer", "rnn")


def translator(family: str, beam: int) -> Translator:
    folder = load_models(FIXTURES / family)
    search = build_search(folder.config["search"], beam=beam)
    return Translator(folder.model, folder.tokenizer, search, batch_tokens=4096)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beam", [1, 5])
def test_translates_to_the_same_text(family: str, beam: int) -> None:
    assert translator(family, beam).translate(SOURCES) == EXPECTED[f"{family} beam {beam}"]


@pytest.mark.parametrize("family", FAMILIES)
def test_gives_the_same_log_probabilities(family: str) -> None:
    references = (FIXTURES / family / "translations" / "test.ref").read_text().splitlines()[: len(SOURCES)]
    found = translator(family, 1).score(SOURCES, references)
    assert found == pytest.approx(EXPECTED[f"{family} log probabilities"], abs=1e-3)


@pytest.mark.slow
@pytest.mark.full
def test_compares_as_before(tmp_path: Path) -> None:
    assert main(["compare", str(FIXTURES / "transformer"), str(FIXTURES / "rnn"), "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "compare.json").read_text())
    expected = EXPECTED["compare"]
    assert [side["scores"] for side in found["sides"]] == expected["scores"]
    for metric, tests in expected["pair"]["differences"].items():
        assert found["pairs"][0]["differences"][metric] == tests


@pytest.mark.parametrize("family", FAMILIES)
def test_saved_again_it_is_the_same_model_in_the_current_format(family: str, tmp_path: Path) -> None:
    before = model_folder.load(FIXTURES / family)
    extra = {key: value for key, value in before.config.items() if key not in ("format", "family", "model")}
    model_folder.save(tmp_path, before.model, before.tokenizer, extra=extra)
    after = model_folder.load(tmp_path)
    assert after.config["format"] == model_folder.FORMAT
    weights = before.model.state_dict()
    assert weights.keys() == after.model.state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in after.model.state_dict().items())


def test_old_names_in_a_folder_of_the_current_format_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(FIXTURES / "rnn" / "model", tmp_path / "model")
    config = tmp_path / "model" / "config.yaml"
    config.write_text(f"format: {model_folder.FORMAT}\n{config.read_text()}")
    assert main(["translate", "--model", str(tmp_path)]) == 2
    assert "another architecture" in capsys.readouterr().err
