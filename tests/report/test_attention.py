"""The data of the attention page."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heed.inference.outputs import Attended
from heed.report.attention import System, attention_page, model_names
from tests.report.html import Page

SRC, TGT = ["▁ti", "red", "</s>"], ["▁mü", "de", "</s>"]


def read_data(html: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


def make_pair(cross: np.ndarray | None, source: str = "tired") -> Attended:
    return Attended(source, "müde", SRC, TGT, cross, encoder_self=None, decoder_self=None)


def test_weights_are_bytes_and_the_most_informative_head_is_preselected() -> None:
    weights = np.stack([np.full((3, 3), 1 / 3), np.eye(3)])[None]
    data = read_data(attention_page([System("a", "runs/a", "rnn", [make_pair(weights)])], given=True))
    assert data["given"] is True
    (system,) = data["systems"]
    maps = system["pairs"][0]["maps"]
    assert list(maps) == ["cross"]
    values = np.frombuffer(base64.b64decode(maps["cross"]["weights"]), dtype=np.uint8)
    np.testing.assert_allclose(values.reshape(maps["cross"]["shape"]) / 255, weights, atol=0.5 / 255)
    assert maps["cross"]["best"] == [0, 1]
    assert maps["cross"]["rows"] == [
        {"text": "mü", "label": "mü", "opens": True, "special": False},
        {"text": "de", "label": "·de", "opens": False, "special": False},
        {"text": "</s>", "label": "</s>", "opens": True, "special": True},
    ]


def test_a_model_without_attention_has_no_maps() -> None:
    data = read_data(attention_page([System("a", "runs/a", "rnn", [make_pair(None)])], given=False))
    assert data["systems"][0]["pairs"][0]["maps"] == {}


def test_text_cannot_close_the_script_element() -> None:
    html = attention_page([System("a", "runs/a", "rnn", [make_pair(None, "</script><b>")])], given=False)
    assert read_data(html)["systems"][0]["pairs"][0]["source"] == "</script><b>"
    assert html.count("</script>") == 2


def test_maps_keep_their_order() -> None:
    weights = np.eye(3)[None, None]
    pair = replace(make_pair(weights), encoder_self=weights, decoder_self=weights)
    data = read_data(attention_page([System("a", "runs/a", "transformer", [pair])], given=True))
    assert (
        list(data["titles"])
        == list(data["systems"][0]["pairs"][0]["maps"])
        == ["cross", "encoder_self", "decoder_self"]
    )


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    page = Page(attention_page([System("a", "runs/a", "rnn", [make_pair(np.eye(3)[None, None])])], given=True))
    assert [e.attributes["href"] for e in page.find("link")] == ["data:,"]
    (policy,) = [e.attributes["content"] for e in page.find("meta") if "http-equiv" in e.attributes]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"


def write_results(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"name": name}))
    return folder


def test_models_have_the_names_of_their_runs(tmp_path: Path) -> None:
    run = write_results(tmp_path / "runs" / "first" / "2026-11-23", "first")
    (run / "model").mkdir()
    copy = tmp_path / "copied"
    copy.mkdir()
    assert model_names([run]) == model_names([run / "model"]) == ["first"]
    assert model_names([copy, run]) == ["copied", "first"]


def test_names_are_unique_and_no_paths(tmp_path: Path) -> None:
    runs = [write_results(tmp_path / parent / "t", "n") for parent in ("a", "b")]
    assert model_names(runs) == [str(run) for run in runs]
    assert model_names([runs[0], runs[0]]) == ["n (1)", "n (2)"]
