"""``--engine ctranslate2``: the translations of heed, from an export that is made once."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heed
from heed.errors import HeedError
from heed.export import to_ctranslate2
from heed.inference import model_folder
from tests.conftest import RNN
from tests.export.models import LINES, positions, transformer, write_model, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]
SENTENCES = [*LINES, "", " ", "ünknown dog"]


@pytest.fixture
def translate(heed_cli: Heed, monkeypatch: pytest.MonkeyPatch) -> Heed:
    """``translate(run, *options)`` with `SENTENCES` as standard input and CTranslate2 as the engine."""

    def translated(run: Path, *options: Any) -> tuple[int, str, str]:
        text = "".join(f"{line}\n" for line in SENTENCES)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return heed_cli("translate", "--model", run, "--engine", "ctranslate2", *options)

    return translated


def test_greedy_results_are_those_of_heed(tmp_path: Path, translate: Heed) -> None:
    run = write_run(tmp_path / "run", transformer())
    expected = heed.load(run, device="cpu").translate(SENTENCES, beam=1, alignments=True)
    status, out, err = translate(run, "--beam", 1, "--json", "--alignments", "--batch-tokens", 9)
    assert status == 0, err
    found = [json.loads(line)["translations"][0] for line in out.splitlines()]
    assert [each["text"] for each in found] == [each.text for each in expected]
    assert [each["finished"] for each in found] == [each.finished for each in expected]
    # CTranslate2 normalises without <pad> and <s>, to which random weights give 2 of 40 of the probability.
    for each, own in zip(found, expected, strict=True):
        assert own.log_prob <= each["log_prob"] + 1e-3
        assert each["log_prob"] == pytest.approx(own.log_prob, rel=0.03)
        assert each["score"] == pytest.approx(own.score, rel=0.03)
    links = [" ".join(f"{i}-{j}" for i, j in each.alignment or ()) for each in expected]
    assert [each["alignment"] for each in found] == links


def test_beam_search_does_not_depend_on_the_batch(tmp_path: Path) -> None:
    model = to_ctranslate2.load(write_run(tmp_path / "run", transformer()), device="cpu")
    together = model.translate(SENTENCES, n_best=3)
    alone = [model.translate([line], n_best=3)[0] for line in SENTENCES]
    assert [[each.text for each in n_best] for n_best in alone] == [[each.text for each in n] for n in together]
    for n_best, single in zip(together, alone, strict=True):
        scores = [each.score for each in n_best]
        assert [each.score for each in single] == pytest.approx(scores, abs=1e-4)
        assert scores == [each.score for each in sorted(n_best, key=lambda each: (not each.finished, -each.score))]
    assert {len(n_best) for n_best in together} == {1, 3}  # blank lines have one


def test_the_export_is_made_once_for_the_same_model(tmp_path: Path, translate: Heed) -> None:
    model = write_model(tmp_path / "model", transformer())
    err = translate(model)[2]
    assert "exporting" in err
    assert "the export is not checked, because" in err
    assert "export" not in translate(model)[2]
    (export,) = (path for path in (model / "ctranslate2").iterdir() if path.is_dir())
    (export / "model.bin").write_bytes(b"damaged")
    assert "exporting" in translate(model)[2]
    write_model(model, transformer(), seed=2)
    status, out, err = translate(model, "--beam", 1)
    assert "exporting" in err
    assert out.splitlines() == heed.load(model, device="cpu").translate(SENTENCES, beam=1)
    assert status == 0


def test_a_direction_is_chosen_as_by_heed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    assert to_ctranslate2.load(run, device="cpu", direction="en-de").directions == ["en-de"]
    with pytest.raises(HeedError, match="de-en is not a direction"):
        to_ctranslate2.load(run, device="cpu", direction="de-en")


def test_refusals_name_the_other_engine(tmp_path: Path, translate: Heed) -> None:
    run = write_run(tmp_path / "run", transformer())
    alibi = write_run(tmp_path / "alibi", transformer(positions=positions("alibi")))
    rnn = write_run(tmp_path / "rnn", RNN)
    assert translate(run)[0] == 0
    for status, out, err in (
        translate(rnn),
        translate(alibi),
        translate(run, "--model", run),
        translate(run, "--sample"),
        translate(run, "--mbr"),
    ):
        assert (status, out) == (2, ""), err
        assert len(err.splitlines()) == 1
        assert "Leave out --engine ctranslate2" in err
    assert "ALiBi" in translate(alibi)[2]
    assert "ensemble" in translate(run, "--model", run)[2]
    assert not (rnn / "model" / "ctranslate2").exists()


def test_a_missing_package_is_one_sentence(tmp_path: Path, translate: Heed, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", transformer())
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    status, _, err = translate(run)
    assert (status, len(err.splitlines())) == (2, 1)
    assert "pip install -e '.[export]'" in err


def test_the_model_folder_stays_loadable(tmp_path: Path, translate: Heed) -> None:
    model = write_model(tmp_path / "model", transformer())
    translate(model)
    assert model_folder.load(model).config["src_lang"] == "en"
