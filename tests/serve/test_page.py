"""The page of the server, one file that loads nothing from elsewhere, and the attention that it shows."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import heed
from heed.interventions import force
from heed.serve import attend
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.symbols import PLACEHOLDERS
from tests.conftest import RNN
from tests.exchange.models import transformer, write_run
from tests.report.html import Page


def test_the_page_is_self_contained(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["content-security-policy"] == "frame-ancestors 'none'"
    page = Page(response.text)
    assert not page.find("link", "stylesheet")
    assert [each.attributes.get("src") for each in page.find("script")] == [None, None]
    assert [each.attributes["href"] for each in page.find("link")] == ["data:,"]
    (policy,) = (e.attributes["content"] for e in page.find("meta") if e.attributes.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", response.text))
    assert addresses == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("path", ["/", "/docs"])
@pytest.mark.parametrize("root_path", ["", "/mt"])
def test_pages_load_nothing_from_other_hosts_or_paths(model: ServedModel, path: str, root_path: str) -> None:
    client = TestClient(create_app([model]), root_path=root_path)
    response = client.get(path)
    assert response.status_code == 200
    page = Page(response.text)
    linked = [each.attributes[name] or "" for each in page.elements for name in ("href", "src", "action", "data")
              if name in each.attributes]  # fmt: skip
    assert linked
    for address in [*linked, *re.findall(r"url\(([^)]*)\)|fetch\(\"([^\"]*)", response.text)]:
        assert not re.match(r"[a-z]+://|/", "".join(address)), address
    for address in set(linked) - {"data:,", "."}:
        assert client.get(f"/{address}").status_code == 200


def test_api_page_describes_every_endpoint(client: TestClient) -> None:
    text = Page(client.get("/docs").text).text
    api = client.get("/openapi.json").json()
    for path, methods in api["paths"].items():
        for method, endpoint in methods.items():
            assert f"{method.upper()} {path}" in text
            if "requestBody" in endpoint:
                schema = endpoint["requestBody"]["content"]["application/json"]["schema"]
                assert all(name in text for name in schema["properties"])
    assert all(status in text for status in api["paths"]["/translate"]["post"]["responses"] if status != "200")


def test_openapi_names_the_path_behind_a_proxy(model: ServedModel) -> None:
    client = TestClient(create_app([model]), root_path="/mt")
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/mt"}]
    with client:
        answer = client.post("/translate", json={"q": "5", "source": "en", "target": "de"})
    assert answer.json()["translatedText"] == "5"


def test_the_page_is_not_part_of_the_api(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert "/" not in paths
    assert "/attend" in paths


def test_controls_have_names(client: TestClient) -> None:
    page = Page(client.get("/").text)
    for control in [*page.find("select"), *page.find("textarea")]:
        assert control.attributes.get("aria-label")
    for fieldset in page.find("fieldset"):
        assert any(child.tag == "legend" and child.text.strip() for child in fieldset.children)


LANGUAGES = {"source": "en", "target": "de"}
TEXT = "the farmer saw the dog"


def test_the_weights_are_those_of_the_translator(client: TestClient, model: ServedModel) -> None:
    answer = client.post("/attend", json={"q": f"  {TEXT} \n", **LANGUAGES}).json()
    (pair,) = model.translator.attend(TEXT)
    assert (answer["model"], answer["family"]) == ("tiny", "transformer")
    assert answer["tokens"] == {"source": pair.src_pieces, "target": pair.tgt_pieces}
    assert answer["translation"] == pair.target == model.translator.translate(TEXT)[0]
    for kind, expected in (
        ("cross", pair.cross),
        ("encoder_self", pair.encoder_self),
        ("decoder_self", pair.decoder_self),
    ):
        layers = [layer for layer in answer["layers"] if layer["kind"] == kind]
        assert [layer["name"] for layer in layers] == [f"layer {number}" for number in range(1, len(layers) + 1)]
        np.testing.assert_allclose([layer["heads"] for layer in layers], expected, atol=1e-4)
        best = answer["best"][kind]
        assert 0 <= best["layer"] < len(layers)
        assert 0 <= best["head"] < len(layers[0]["heads"])


def test_a_forced_row_is_that_of_force(client: TestClient, model: ServedModel) -> None:
    before = client.post("/attend", json={"q": TEXT, **LANGUAGES}).json()
    words = before["words"]
    (first, rows), keys = list(words["target"].items())[-1], words["source"]["dog"]
    row = {"attention": "cross", "queries": rows, "keys": keys, "layer": 1}
    encoder = {"attention": "encoder_self", "queries": keys, "keys": words["source"]["farmer"], "head": 0}
    for forced, instructions in (
        ([row], [f"cross layer 2: {first} → dog"]),
        ([row, encoder], [f"layer 2: {first} → dog", "encoder head 1: dog → farmer"]),
    ):
        answer = client.post("/attend", json={"q": TEXT, **LANGUAGES, "force": forced}).json()
        _, after = force(model.translator, TEXT, instructions)
        assert (answer["translation"], answer["tokens"]["target"]) == (after.target, after.tgt_pieces)
        cross = [layer["heads"] for layer in answer["layers"] if layer["kind"] == "cross"]
        np.testing.assert_allclose(cross, after.cross, atol=1e-4)
    assert np.allclose(np.array(cross)[1][:, rows][..., keys], 1 / len(keys), atol=1e-4)
    assert client.post("/attend", json={"q": TEXT, **LANGUAGES}).json() == before, "nothing stays in the model"


def test_attention_of_a_translation_with_a_prefix_and_terms(client: TestClient, model: ServedModel) -> None:
    constraints = {"prefix": "the f", "terms": {"dog": "house"}}
    plain = client.post("/translate", json={"q": TEXT, **LANGUAGES, **constraints}).json()["translatedText"]
    answer = client.post("/attend", json={"q": TEXT, **LANGUAGES, **constraints}).json()
    assert plain == answer["translation"]
    assert plain.startswith("the f")
    assert "house" in plain.split()
    row = {"attention": "cross", "queries": [len(answer["tokens"]["target"]) - 2], "keys": [0]}
    forced = client.post("/attend", json={"q": TEXT, **LANGUAGES, **constraints, "force": [row]}).json()
    assert forced["translation"].startswith("the f")
    assert "house" in forced["translation"].split()
    assert forced["tokens"]["target"][: row["queries"][0]] == answer["tokens"]["target"][: row["queries"][0]]


def test_attention_of_a_translation_with_protected_text(serve: Callable[..., TestClient], tmp_path: Path) -> None:
    pieces = {"user_defined_symbols": list(PLACEHOLDERS), "byte_fallback": True, "vocab_size": 320}
    run = write_run(tmp_path / "run", transformer(), **pieces)
    client, body = serve(ServedModel("tiny", heed.load(run, device="cpu"))), {"q": f"{TEXT} {{name}}", **LANGUAGES}
    answer = client.post("/attend", json=body).json()
    assert answer["translation"] == client.post("/translate", json=body).json()["translatedText"]
    assert answer["translation"].count("{name}") == 1
    assert answer["tokens"]["source"].index("{name}") in answer["words"]["source"]["name"]
    row = {"attention": "cross", "queries": [len(answer["tokens"]["target"]) - 1], "keys": [0]}
    forced = client.post("/attend", json={**body, "force": [row]}).json()
    assert forced["translation"].count("{name}") == 1


def test_a_long_translation_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "MAX_PIECES", 5)  # "dog" is one subword, and its translation by this model has 13
    response = client.post("/attend", json={"q": "dog", **LANGUAGES})
    assert response.status_code == 400
    assert "The translation has " in response.json()["error"]


def forced(**changes: object) -> dict[str, object]:
    return {"force": [{"attention": "cross", "queries": [1], "keys": [0], **changes}]}


def test_a_model_is_chosen_by_name(model: ServedModel, serve: Callable[..., TestClient], tmp_path: Path) -> None:
    recurrent = ServedModel("rnn", heed.load(write_run(tmp_path / "rnn", RNN), device="cpu"))
    client = serve(model, recurrent)
    assert client.post("/attend", json={"q": TEXT, **LANGUAGES}).json()["family"] == "transformer"
    answer = client.post("/attend", data={"q": TEXT, **LANGUAGES, "model": "rnn"}).json()
    assert answer["family"] == "rnn"
    assert {layer["kind"] for layer in answer["layers"]} == {"cross"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": ""}, "q"),
        ({"q": " \n"}, "The text is empty"),
        ({"q": "dog " * 201}, "subwords, and attention is shown for up to 200"),
        ({"q": "x" * 10_001}, "characters exceed the limit of 10,000"),
        ({"q": "a \ud800 b"}, "a lone surrogate"),
        ({"q": ["a", "b"]}, "q"),
        ({"target": "fr"}, "fr is not supported"),
        ({"model": "other"}, "other is not a model of this server"),
        (forced(layer=7), "no such cross attention"),
        (forced(attention="hidden"), "force.0.attention"),
        (forced(keys=[]), "force.0.keys"),
        (forced(keys=[60]), "The query 1 of cross attention has keys up to "),
        (forced(attention="decoder_self", keys=[2]), "The query 1 of decoder_self attention has keys up to 1 only"),
        (forced(queries=[-1]), "force.0.queries.0"),
        ({"force": forced()["force"] * 51}, "force"),  # type: ignore[operator]
        ({"force": "cross: a → b"}, "force"),
    ],
)
def test_wrong_requests_are_one_sentence(client: TestClient, change: dict[str, object], message: str) -> None:
    content = json.dumps({"q": TEXT, **LANGUAGES, **change})
    response = client.post("/attend", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert message in response.json()["error"]
