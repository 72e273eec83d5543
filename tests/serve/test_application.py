"""LibreTranslate's API."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from omegaconf import OmegaConf

import heed
from heed.cli.serve import _accepted_hosts
from heed.errors import HeedError
from heed.inference.searches import MBR, SAMPLE
from heed.inference.translator import Translator
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.serve.settings import ServeSettings
from tests.export.models import LINES

Serve = Callable[..., TestClient]

EN_DE = {"source": "en", "target": "de"}


def error(client: TestClient, status: int, **body: object) -> str:
    """Return the message of a translation that is refused with a status."""
    response = client.post("/translate", json={"q": LINES[0], **EN_DE, **body})
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return str(response.json()["error"])


# ---- translations


def test_a_text_and_a_list_are_translated_as_by_the_translator(client: TestClient, model: ServedModel) -> None:
    expected = model.translator.translate(LINES)
    assert any(expected)
    assert client.post("/translate", json={"q": LINES[0], **EN_DE}).json() == {"translatedText": expected[0]}
    assert client.post("/translate", json={"q": LINES, **EN_DE}).json() == {"translatedText": expected}
    assert client.post("/translate", json={"q": [], **EN_DE}).json() == {"translatedText": []}
    assert client.post("/translate", json={"q": "", **EN_DE}).json() == {"translatedText": ""}


@pytest.mark.parametrize("kind", ["data", "files", "params"])
def test_forms_and_parameters_are_read_as_json_is(client: TestClient, model: ServedModel, kind: str) -> None:
    fields = {"q": LINES[1], **EN_DE, "format": "", "alternatives": "1", "unknown": "x"}
    sent = {name: (None, value) for name, value in fields.items()} if kind == "files" else fields
    answer = client.post("/translate", **{kind: sent}).json()  # type: ignore[arg-type]
    assert answer["translatedText"] == model.translator.translate(LINES[1])[0]
    assert len(answer["alternatives"]) == 1


def test_lines_spaces_and_sentences_are_kept(client: TestClient, model: ServedModel) -> None:
    first, second = model.translator.translate(["The farmer saw the dog and the cat.", "A cat sleeps."])
    assert first
    assert second
    text = "\n  The farmer saw the dog and the cat. A cat sleeps.\t\n\nA cat sleeps."
    answer = client.post("/translate", json={"q": text, **EN_DE}).json()
    assert answer["translatedText"] == f"\n  {first} {second}\t\n\n{second}"
    # Forms have CR LF.
    form = client.post("/translate", data={"q": text.replace("\n", "\r\n"), **EN_DE}).json()
    assert form == answer


def test_sentences_are_split_only_if_that_is_wanted(serve: Serve, model: ServedModel) -> None:
    text = "The dog runs. A cat sleeps."
    answer = serve(split_sentences=False).post("/translate", json={"q": text, **EN_DE}).json()
    assert answer["translatedText"] == model.translator.translate(text)[0]


def test_a_sentence_too_long_for_the_model_is_split(serve: Serve, run_folder: Path) -> None:
    short = heed.load(run_folder, device="cpu", max_tokens=12)
    client = serve(ServedModel("short", short), split_sentences=False)
    text = " ".join(LINES)
    with pytest.raises(HeedError):
        short.translate(text)
    assert client.post("/translate", json={"q": text, **EN_DE}).json()["translatedText"]


def test_alternatives_are_the_next_best_translations(client: TestClient, model: ServedModel) -> None:
    (n_best,) = model.translator.translate(LINES[0], n_best=4)
    expected = list(dict.fromkeys(each.text for each in n_best))
    answer = client.post("/translate", json={"q": LINES[0], "alternatives": 3, **EN_DE}).json()
    assert [answer["translatedText"], *answer["alternatives"]] == expected
    # More than the model's beam of 5 holds.
    many = client.post("/translate", json={"q": [LINES[0]], "alternatives": 7, **EN_DE}).json()
    (n_best,) = model.translator.translate(LINES[0], n_best=8, beam=8)
    assert many["alternatives"] == [list(dict.fromkeys(each.text for each in n_best))[1:]]


def test_a_client_may_choose_the_beam(client: TestClient, model: ServedModel) -> None:
    answer = client.post("/translate", json={"q": LINES, "beam": 1, **EN_DE}).json()
    assert answer["translatedText"] == model.translator.translate(LINES, beam=1)
    assert answer["translatedText"] != model.translator.translate(LINES)


def test_a_model_may_have_a_search_without_a_beam(serve: Serve, model: ServedModel) -> None:
    own = model.translator
    for search in ({**MBR, "beam": 2, "samples": 2}, {**MBR, "beam": 0, "samples": 3}, SAMPLE):
        translator = Translator(own.model, own.tokenizer, search, src_lang="en", tgt_lang="de")
        answer = serve(ServedModel("other", translator)).post("/translate", json={"q": LINES[0], **EN_DE})
        assert answer.json() == {"translatedText": translator.translate(LINES[0])[0]}


def test_only_text_nodes_of_html_are_translated(client: TestClient, model: ServedModel) -> None:
    dog, cat = model.translator.translate(["the dog", "a cat & a dog"])
    html = '<p class="a">the\n dog <b title="the dog">a cat &amp; a dog</b><br/><code>the dog</code></p>'
    answer = client.post("/translate", json={"q": html, "format": "html", **EN_DE}).json()
    expected = f'<p class="a">{dog} <b title="the dog">{cat}</b><br/><code>the dog</code></p>'
    assert answer["translatedText"] == expected.replace("&", "&amp;")


def test_a_text_in_the_target_language_stays_as_it_is(client: TestClient) -> None:
    assert client.post("/translate", json={"q": "Hund", "source": "de", "target": "de"}).json() == {
        "translatedText": "Hund"
    }


def test_codes_match_without_case_and_region(client: TestClient) -> None:
    for source, target in (("EN", "de-AT"), ("en_GB", "DE")):
        answer = client.post("/translate", json={"q": LINES[0], "source": source, "target": target})
        assert answer.status_code == 200


# ---- several models, detection


@pytest.fixture
def two(model: ServedModel, run_folder: Path, tmp_path: Path) -> list[ServedModel]:
    """The model, and one in the other direction."""
    shutil.copytree(run_folder / "model", tmp_path / "back")
    config = OmegaConf.load(tmp_path / "back" / "config.yaml")
    OmegaConf.save(OmegaConf.merge(config, {"src_lang": "de", "tgt_lang": "en"}), tmp_path / "back" / "config.yaml")
    back = heed.load(tmp_path / "back", device="cpu")
    german = ["der hund läuft", "eine katze schläft im haus", "der bauer sah den hund und die katze"]
    return [model._replace(samples={"en": LINES, "de": german}), ServedModel("back", back)]


def test_models_are_chosen_by_languages_or_name(serve: Serve, two: list[ServedModel]) -> None:
    client = serve(*two, ServedModel("other", two[0].translator))
    assert client.post("/translate", json={"q": "x", "source": "de", "target": "en"}).status_code == 200
    assert client.post("/translate", json={"q": "x", **EN_DE, "model": "other"}).status_code == 200
    assert "de-en" in error(client, 400, model="back")
    assert "../../etc" in error(client, 400, model="../../etc")
    assert "French (fr)" not in error(client, 400, target="fr")
    assert [each["name"] for each in client.get("/models").json()] == ["tiny", "back", "other"]
    assert client.get("/languages").json()[1] == {"code": "de", "name": "German", "targets": ["en"]}


def test_the_source_language_is_detected_for_each_text(serve: Serve, two: list[ServedModel]) -> None:
    client = serve(*two)
    texts = ["the dog and the cat", "der hund und die katze"]
    found = client.post("/detect", data={"q": texts[1]}).json()
    assert [each["language"] for each in found] == ["de", "en"]
    assert 50 < found[0]["confidence"] <= 100
    answer = client.post("/translate", json={"q": texts, "source": "auto", "target": "de"}).json()
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "de"]
    assert answer["translatedText"][1] == texts[1]
    one = client.post("/translate", json={"q": texts[0], "source": "auto", "target": "de"}).json()
    assert one["detectedLanguage"] == answer["detectedLanguage"][0]


def test_markup_is_no_evidence_of_a_language(serve: Serve, two: list[ServedModel]) -> None:
    html = '<a href="https://example.org/der-hund-und-die-katze" title="der hund und die katze">the dog</a>'
    answer = serve(*two).post("/translate", json={"q": html, "source": "auto", "target": "de", "format": "html"}).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_one_source_language_needs_no_detection(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "xyz", "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"] == {"language": "en", "confidence": 100}


def test_without_sentences_to_learn_from_the_source_must_be_given(serve: Serve, two: list[ServedModel]) -> None:
    client = serve(two[0]._replace(samples={}), two[1])
    assert "give source" in error(client, 400, source="auto")


def test_models_that_cannot_be_told_apart_are_refused(model: ServedModel) -> None:
    with pytest.raises(HeedError, match="same name"):
        create_app([model, model])
    with pytest.raises(HeedError, match="no model"):
        create_app([])
    unknown = model.translator.in_direction(None)
    unknown.src_lang = ""
    with pytest.raises(HeedError, match="languages of nowhere are unknown"):
        create_app([ServedModel("nowhere", unknown)])


# ---- errors and limits


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"source": "fr"}, "fr is not supported: this server has en, de."),
        ({"source": "de", "target": "en"}, "English (en) is not available as a target language from German (de)"),
        (
            {"source": "deu", "target": "eng_Latn"},
            "English (en) is not available as a target language from German (de)",
        ),
        ({"source": "auto", "target": "xx"}, "xx is not supported"),
        ({"source": ""}, "source"),
        ({"q": None}, "q"),
        ({"q": 3}, "Invalid request: q: Input should be a valid string; q: Input should be a valid list."),
        ({"q": ["a", 3]}, "q.1: Input should be a valid string"),
        ({"q": {"a": 1}}, "q"),
        ({"format": "pdf"}, "format"),
        ({"alternatives": -1}, "alternatives"),
        ({"alternatives": 11}, "alternatives must be at most 10."),
        ({"alternatives": 1, "format": "html"}, "format=text"),
        ({"beam": 1, "alternatives": 1}, "beam must be from 2"),
        ({"beam": 13}, "beam must be from 1 (alternatives + 1) to 12."),
        ({"q": "x" * 10_001}, "10,001 characters exceed the limit of 10,000."),
        ({"q": ["x"] * 101}, "101 texts exceed the limit of 100."),
        ({"q": "x\n" * 501}, "501 sentences exceed the limit of 500."),
        ({"q": "<p>dog</p", "format": "html"}, "not closed"),
        ({"q": "<![x[", "format": "html"}, "malformed"),
    ],
)
def test_wrong_requests_get_a_sentence(client: TestClient, body: dict[str, object], message: str) -> None:
    assert message in error(client, 400, **body)


def test_missing_parameters_are_named(client: TestClient) -> None:
    assert client.post("/translate", json={"q": "x"}).json()["error"].startswith("Invalid request: missing source")
    assert client.post("/translate").status_code == 400
    assert client.post("/detect", data={}).json()["error"] == "Invalid request: missing q parameter."


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"null", b"\xff", b"[" * 100_000, b'{"q": NaN}'])
def test_broken_json_gets_a_sentence(client: TestClient, body: bytes) -> None:
    response = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"].startswith("Invalid request")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/translate", {"q": "\ud800"}),
        ("/translate", {"q": ["\ud800"]}),
        ("/translate", {"source": "\ud800"}),
        ("/translate", {"target": "\ud800"}),
        ("/translate", {"format": "\ud800"}),
        ("/translate", {"model": "\ud800"}),
        ("/translate", {"api_key": "\ud800"}),
        ("/detect", {"q": "\ud800"}),
        ("/attend", {"q": "\ud800"}),
        ("/attend", {"model": "\ud800"}),
    ],
)
def test_lone_surrogates_get_a_sentence(client: TestClient, path: str, fields: dict[str, object]) -> None:
    body = json.dumps({"q": "x", **EN_DE, **fields})
    response = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert "error" in response.json()


def test_control_characters_get_an_answer(client: TestClient) -> None:
    for text in ("\0", "the\0dog", "\x1b[31m dog", "\u2028dog\u2029", "\ufeff", "\x85", "😀" * 50, "\r\r\n"):
        for kind in ("text", "html"):
            answer = client.post("/translate", json={"q": text, "format": kind, **EN_DE})
            assert answer.status_code == 200, text


def test_a_large_body_is_refused(client: TestClient) -> None:
    large = "x" * 10_000_000
    for sent in ({"json": {"q": large, **EN_DE}}, {"data": {"q": large, **EN_DE}}):
        response = client.post("/translate", **sent)  # type: ignore[arg-type]
        assert response.status_code == 413
        assert response.json()["error"] == "The body exceeds the limit of 1,000,000 bytes."
    chunks = (b"x" * 100_000 for _ in range(100))  # without Content-Length
    response = client.post("/translate", content=chunks, headers={"Content-Type": "application/json"})
    assert response.status_code == 413


def test_unknown_paths_and_methods_have_the_same_form(client: TestClient) -> None:
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/translate").json() == {"error": "Method Not Allowed"}


def test_a_failure_of_the_model_is_told_without_details(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("secret path")

    app = create_app([model])
    with TestClient(app) as client:
        monkeypatch.setattr(app.state.service.models.routes[0].translator, "translate", fail)
        message = error(client, 500)
        monkeypatch.undo()
        assert client.post("/translate", json={"q": "x", **EN_DE}).status_code == 200
        assert 'status="500"' in client.get("/metrics").text
    assert "secret" not in message
    assert "secret" in caplog.text


def test_slow_requests_are_given_up(serve: Serve, model: ServedModel) -> None:
    client = serve(timeout=0.001)
    response = client.post("/translate", json={"q": LINES * 20, **EN_DE})
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0


def test_a_full_queue_says_when_to_try_again(serve: Serve) -> None:
    client = serve(max_waiting=3, max_sentences=3)
    worker = client.app.state.service.worker("tiny")  # type: ignore[attr-defined]
    worker.waiting = 2  # as while two sentences are translated
    response = client.post("/translate", json={"q": LINES[:2], **EN_DE})
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    worker.waiting = 0
    assert client.post("/translate", json={"q": LINES[:2], **EN_DE}).status_code == 200


def test_contradictory_limits_are_refused() -> None:
    with pytest.raises(HeedError, match="max_waiting"):
        ServeSettings(max_waiting=10)
    with pytest.raises(HeedError, match="max_beam"):
        ServeSettings(max_beam=2)
    with pytest.raises(HeedError, match="max_chars"):
        ServeSettings(max_chars=0)


# ---- keys, ids, metrics


def test_a_key_is_needed_if_there_are_keys(serve: Serve) -> None:
    client = serve(api_keys=frozenset({"right", "other"}))
    assert "needs an API key" in error(client, 403)
    assert error(client, 403, api_key="wröng") == "Invalid API key."
    for path, body in (("/translate", {"q": "x", **EN_DE}), ("/detect", {"q": "x"})):
        assert client.post(path, json=body).status_code == 403
        assert client.post(path, data={**body, "api_key": "right"}).status_code == 200
        assert client.post(path, json=body, headers={"Authorization": "Bearer other"}).status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True
    assert "right" not in repr(client.app.state.service.settings)  # type: ignore[attr-defined]


def test_browsers_let_pages_of_allowed_sites_use_the_server(client: TestClient, serve: Serve) -> None:
    header = "Access-Control-Allow-Origin"
    site = {"Origin": "https://example.org"}
    assert header not in client.get("/languages", headers=site).headers
    allowed = serve(allowed_origins=frozenset(site.values()))
    assert allowed.get("/languages", headers=site).headers[header] == "https://example.org"
    assert header not in allowed.get("/languages", headers={"Origin": "https://example.com"}).headers
    preflight = {**site, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    assert allowed.options("/translate", headers=preflight).status_code == 200


def test_each_answer_has_an_id(client: TestClient) -> None:
    first, second = (client.get("/health").headers["X-Request-ID"] for _ in range(2))
    assert first != second
    assert client.get("/health", headers={"X-Request-ID": "proxy-1"}).headers["X-Request-ID"] == "proxy-1"
    assert client.get("/nothing", headers={"X-Request-ID": "a b\t"}).headers["X-Request-ID"] != "a b"


def test_metrics_count_requests_and_sentences(client: TestClient) -> None:
    client.post("/translate", json={"q": LINES, **EN_DE})
    client.get("/made/up")
    text = client.get("/metrics").text
    assert 'heed_requests_total{method="POST",path="/translate",status="200"} 1.0' in text
    assert 'heed_requests_total{method="GET",path="unknown",status="404"} 1.0' in text
    assert f'heed_sentences_total{{model="tiny"}} {len(LINES)}.0' in text
    assert 'heed_waiting_sentences{model="tiny"} 0.0' in text


# ---- descriptions


def test_the_server_describes_itself(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert client.get("/health").json() == {"status": "ok"}
    client.app.state.service.stop()  # type: ignore[attr-defined]
    assert client.get("/health").status_code == 503
    assert client.get("/models").json() == [{"name": "tiny", "directions": [EN_DE]}]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert settings["textLimit"] == 100
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_openapi_describes_json_and_forms(client: TestClient) -> None:
    api = client.get("/openapi.json").json()
    content = api["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert {"application/json", "application/x-www-form-urlencoded"} <= content.keys()
    assert content["application/json"]["schema"]["required"] == ["q", "source", "target"]
    assert "422" not in api["paths"]["/translate"]["post"]["responses"]
    assert client.get("/docs").status_code == 200


@pytest.mark.parametrize(
    ("host", "origins", "accepted"),
    [
        ("127.0.0.1", [], {"localhost", "127.0.0.1", "::1"}),
        ("::1", ["https://example.org:8443"], {"localhost", "127.0.0.1", "::1", "example.org"}),
        ("localhost", ["*"], set()),
        ("0.0.0.0", [], set()),
        ("example.org", [], set()),
    ],
)
def test_only_a_local_server_checks_the_host(host: str, origins: list[str], accepted: set[str]) -> None:
    assert _accepted_hosts(host, origins) == accepted


def test_hosts_are_compared_without_the_port(serve: Callable[..., TestClient]) -> None:
    client = serve(hosts=frozenset({"localhost", "::1"}))
    for host, status in {"localhost": 200, "LOCALHOST:5000": 200, "[::1]:5000": 200, "evil.example": 421,
                         "localhost.evil.example:5000": 421, "[": 421, "": 421}.items():  # fmt: skip
        response = client.get("/languages", headers={"Host": host})
        assert response.status_code == status, host
    assert client.get("/languages", headers={"Host": "evil.example"}).json()["error"].startswith("This server is for")
