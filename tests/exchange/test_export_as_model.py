"""A folder of ``heed export --to ctranslate2`` is a model for translate, evaluate, serve and synthesize."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import heed
from heed.errors import HeedError
from heed.exchange import parity, to_ctranslate2
from heed.exchange.to_ctranslate2 import CTranslate2Engine
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from tests.cli.models import write
from tests.exchange.models import LINES, transformer, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]
SENTENCES = [*LINES, "", "5", "ünknown dog"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder ``run`` with exports in float32 and int8; the working directory is the folder above."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parity, "CHECKED_SENTENCES", 20)
    folder = write_run(Path("run"), transformer())
    translator = heed.load(folder, device="cpu")
    for name, quantization in {"ctranslate2": None, "ctranslate2-int8": "int8"}.items():
        (folder / "export" / name).mkdir(parents=True)
        check = parity.validation_set(folder, translator.directions)
        to_ctranslate2.export(translator, folder / "export" / name, check, quantization=quantization)
    return folder


def test_translations_are_those_of_the_exported_model(run: Path, heed_cli: Heed, tmp_path: Path) -> None:
    model, text = heed.load(run, device="cpu"), write(tmp_path / "text", SENTENCES)
    int8 = model.with_engine(CTranslate2Engine(run / "export/ctranslate2-int8"))
    copy = shutil.copytree(run / "export/ctranslate2-int8", tmp_path / "elsewhere")
    shutil.move(run / "model", tmp_path / "gone")  # an export needs nothing of its run
    for folder, expected in {run / "export/ctranslate2": model, copy: int8}.items():
        status, out, err = heed_cli("translate", folder, "--input", text, "--beam", 1, "--device", "cpu")
        assert (status, out.splitlines()) == (0, expected.translate(SENTENCES, beam=1)), err
    status, out, err = heed_cli("translate", copy, "--input", text, "--json", "--n-best", 2)
    found = [[each["text"] for each in json.loads(line)["translations"]] for line in out.splitlines()]
    assert found == [[each.text for each in n_best] for n_best in int8.hypotheses(SENTENCES, n=2)]


def test_its_scores_are_those_of_its_translations(run: Path, heed_cli: Heed, tmp_path: Path) -> None:
    src, ref = write(tmp_path / "src", LINES), write(tmp_path / "ref", LINES)
    options = ["--src", src, "--ref", ref, "--beam", 1, "--json", "--device", "cpu"]
    status, out, err = heed_cli("evaluate", run / "export/ctranslate2", *options)
    assert status == 0, err
    assert json.loads(out)["scores"] == json.loads(heed_cli("evaluate", run, *options)[1])["scores"]
    status, out, err = heed_cli("evaluate", run / "export/ctranslate2", *options, "--metrics", "all")
    missing = json.loads(out)["not_computed"]["perplexity"]
    assert missing == (
        f"run/export/ctranslate2 is an export for CTranslate2, which has no attention maps and no scores of given "
        f"translations: give {run}."
    )
    status, out, err = heed_cli("evaluate", run / "export/ctranslate2", *options, "--metrics", "perplexity")
    assert (status, err) == (2, f"heed: {missing}\n")


def test_it_makes_training_pairs(run: Path, heed_cli: Heed, tmp_path: Path) -> None:
    src = write(tmp_path / "src", LINES)
    common = ["--src", src, "--beam", 1, "--device", "cpu"]
    for folder, out in ((run / "export/ctranslate2", "theirs"), (run, "ours")):
        status, _, err = heed_cli("synthesize", "--model", folder, *common, "--out", tmp_path / out)
        assert status == 0, err
    texts = [
        [json.loads(line)["tgt"] for line in (tmp_path / name / "1.jsonl").read_text().splitlines()]
        for name in ("theirs", "ours")
    ]
    assert texts[0] == texts[1]


def test_a_file_is_continued_with_the_same_export_only(run: Path, heed_cli: Heed, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"the dog\n\xff\n")
    options = ["--input", tmp_path / "text", "--output", tmp_path / "out", "--resume", "--device", "cpu"]
    for folder, reason in (
        ("ctranslate2", "is not UTF-8"),
        ("ctranslate2-int8", "was written with another value of model"),
        ("ctranslate2", "is not UTF-8"),
    ):
        status, _, err = heed_cli("translate", run / "export" / folder, *options)
        assert status == 2
        assert reason in err


def test_a_server_translates_with_it(run: Path) -> None:
    model = to_ctranslate2.load(run / "export/ctranslate2-int8", device="cpu")
    with TestClient(create_app([ServedModel("int8", model)])) as client:
        body = {"q": LINES[0], "source": "en", "target": "de"}
        assert client.post("/translate", json=body).json()["translatedText"] == model.translate(LINES[:1])[0]
        for path, more in {"/translate": {"prefix": "a"}, "/attend": {}}.items():
            answer = client.post(path, json={**body, **more})
            assert answer.status_code == 400
            assert answer.json()["error"].endswith((f"Give {run} for heed's own engine.", f"translations: give {run}."))


REFUSED = {
    "attention": ["attend", "EXPORT", "the dog"],
    "scores": ["score", "EXPORT", "--src", "text", "--tgt", "text"],
    "alignment": ["align", "EXPORT", "--src", "text", "--tgt", "text"],
    "ablation": ["ablate", "EXPORT", "--src", "text", "--ref", "text"],
    "aligned translations": ["translate", "EXPORT", "--alignments"],
    "samples": ["translate", "EXPORT", "--sample"],
    "minimum Bayes risk": ["translate", "EXPORT", "--mbr"],
    "a prefix": ["translate", "EXPORT", "--prefix", "a"],
    "heed's engine": ["translate", "EXPORT", "--engine", "heed"],
}


@pytest.mark.parametrize("command", REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_do_is_refused_with_the_run_to_use(
    run: Path, heed_cli: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[Any]
) -> None:
    write(tmp_path / "text", LINES)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog\n")))
    export = run / "export/ctranslate2"
    status, out, err = heed_cli(*(export if word == "EXPORT" else word for word in command), "--device", "cpu")
    assert (status, out, len(err.splitlines()[-1:])) == (2, "", 1)
    assert f"ive {run}" in err.splitlines()[-1]
    assert "CTranslate2" in err.splitlines()[-1]


def test_several_models_and_folders_of_others_are_refused(run: Path) -> None:
    export = run / "export/ctranslate2"
    with pytest.raises(HeedError, match="cannot translate with an ensemble"):
        to_ctranslate2.load(run, export, device="cpu")
    with pytest.raises(HeedError, match=rf"for heed translate, evaluate and serve: give {run}\."):
        heed.load(export)
    description = export / "heed.json"
    description.write_text(description.read_text().replace('"en"', "3", 1))
    with pytest.raises(HeedError, match=r"heed\.json: src_lang=3 must be text"):
        to_ctranslate2.load(export, device="cpu")
    description.write_text("{}")
    with pytest.raises(HeedError, match="was not written by `heed export --to ctranslate2`"):
        to_ctranslate2.load(export, device="cpu")


def test_it_has_the_directions_of_the_exported_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "CHECKED_SENTENCES", 20)
    tags = {"joint": True, "control_symbols": ["<2de>", "<2en>"]}
    run = write_run(tmp_path / "run", transformer(), **tags)
    model = heed.load(run, device="cpu")
    to_ctranslate2.export(model, tmp_path / "out", parity.validation_set(run, model.directions))
    export = to_ctranslate2.load(tmp_path / "out", device="cpu", direction="de-en")
    assert export.directions == ["de-en", "en-de"]
    assert export.translate(LINES, beam=1) == model.in_direction("de-en").translate(LINES, beam=1)
    assert export.translate(LINES, beam=1) != model.translate(LINES, beam=1)
