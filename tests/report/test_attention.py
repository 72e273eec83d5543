"""The data of the attention page."""

import base64
import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from heed.report.attention import System, render

SRC, TGT = ["▁ti", "red", "</s>"], ["▁mü", "de", "</s>"]


def read_data(html: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


def make_pair(cross: np.ndarray | None, source: str = "tired") -> SimpleNamespace:
    return SimpleNamespace(
        source=source, target="müde", src_pieces=SRC, tgt_pieces=TGT, read_pieces=["<s>", *TGT[:-1]],
        cross=cross, encoder_self=None, decoder_self=None,
    )  # fmt: skip


def test_weights_are_bytes_and_the_most_informative_head_is_preselected() -> None:
    weights = np.stack([np.full((3, 3), 1 / 3), np.eye(3)])[None]
    data = read_data(render([System("runs/a", "rnn", [make_pair(weights)])], given=True))
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
    data = read_data(render([System("a", "rnn", [make_pair(None)])], given=False))
    assert data["systems"][0]["pairs"][0]["maps"] == {}


def test_text_cannot_close_the_script_element() -> None:
    html = render([System("a", "rnn", [make_pair(None, "</script><b>")])], given=False)
    assert read_data(html)["systems"][0]["pairs"][0]["source"] == "</script><b>"
    assert html.count("</script>") == 2
