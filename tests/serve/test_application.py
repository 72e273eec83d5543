"""LibreTranslate's API."""

import json
import math
import re
import shutil
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from omegaconf import OmegaConf

import heed
from heed.decoding import NBest
from heed.documents.document import split_document
from heed.errors import HeedError
from heed.inference.engine import Engine
from heed.inference.searches import DEFAULTS
from heed.inference.translator import Translator
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.serve.requests import FORMS
from heed.serve.settings import ServeSettings, accepted_hosts
from tests.exchange.models import LINES, transformer, write_model, write_run

Serve = Callable[..., TestClient]

ROOT = Path(__file__).parents[2]
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
    assert client.post("/translate", json={"q": LINES[0], **EN_DE}).json()["translatedText"] == expected[0]
    assert client.post("/translate", json={"q": LINES, **EN_DE}).json()["translatedText"] == expected
    assert client.post("/translate", json={"q": [], **EN_DE}).json() == {"translatedText": []}
    assert client.post("/translate", json={"q": "", **EN_DE}).json() == {"translatedText": ""}


@pytest.mark.parametrize("kind", ["data", "files", "params"])
def test_forms_and_parameters_are_read_as_json_is(client: TestClient, model: ServedModel, kind: str) -> None:
    fields = {"q": LINES[1], **EN_DE, "format": "", "alternatives": "1", "unknown": "x"}
    sent = {name: (None, value) for name, value in fields.items()} if kind == "files" else fields
    answer = client.post("/translate", **{kind: sent}).json()  # type: ignore[arg-type]
    assert answer["translatedText"] == model.translator.translate(LINES[1])[0]
    assert len(answer["alternatives"]) == 1


@pytest.mark.parametrize("kind", ["data", "params"])
def test_a_repeated_field_is_a_list(client: TestClient, kind: str) -> None:
    expected = client.post("/translate", json={"q": ["5", LINES[0], LINES[1]], **EN_DE}).json()
    sent = {"q": ["5", LINES[0], LINES[1]], **EN_DE}
    assert client.post("/translate", **{kind: sent}).json() == expected  # type: ignore[arg-type]
    assert len(expected["translatedText"]) == 3
    for path, name in (("/translate", "source"), ("/detect", "q"), ("/attend", "q")):
        answer = client.post(path, **{kind: {"q": "x", **EN_DE, name: ["en", "de"]}})  # type: ignore[arg-type]
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(f"Invalid request: {name}")


@pytest.mark.parametrize("text", ["12345", "!!!", "😀 😀", "1,000.5\n\n- 7 -", " – "])
def test_text_without_letters_is_copied(client: TestClient, text: str) -> None:
    for kind in ("text", "html"):
        answer = client.post("/translate", json={"q": text, "format": kind, **EN_DE}).json()
        assert answer == {"translatedText": text if kind == "text" else text.replace("\n\n", " ")}


@pytest.fixture
def empty_first(serve: Serve, tmp_path: Path) -> TestClient:
    """A client of a model that prefers empty translations with a beam, and finds only these for "the house"."""
    folder = write_model(tmp_path / "model", transformer(), seed=23)
    return serve(ServedModel("empty", heed.load(folder, device="cpu")))


def test_a_sentence_with_an_empty_translation_is_copied_and_marked(empty_first: TestClient) -> None:
    body = {"beam": 1, "format": "html", **EN_DE}
    html = "<p>5</p><b>the house</b>"
    answer = empty_first.post("/translate", json={"q": html, **body}).json()
    assert answer == {"translatedText": html, "symptoms": ["empty"]}
    answer = empty_first.post("/translate", json={"q": ["the house", "7", "the house. 7"], **body}).json()
    assert answer["translatedText"] == ["the house", "7", "the house. 7"]
    assert answer["symptoms"] == [["empty"], [], ["empty"]]


def test_alternatives_have_text(serve: Serve, tmp_path: Path) -> None:
    translator = heed.load(write_model(tmp_path / "model", transformer(), seed=14), device="cpu")
    assert translator.without_fallbacks().translate(LINES[0]) == [""]
    body = {"q": LINES[0], "alternatives": 4, **EN_DE}
    answer = serve(ServedModel("m", translator)).post("/translate", json=body).json()
    (n_best,) = translator.hypotheses(LINES[0], n=5)
    assert [answer["translatedText"], *answer["alternatives"]] == [each.text for each in n_best if each.text]
    assert len(answer["alternatives"]) == 3
    assert "second choice" in answer["symptoms"]


@pytest.mark.parametrize("protect", [None, True, False])
def test_each_text_of_a_list_is_protected_as_if_it_were_alone(client: TestClient, protect: bool | None) -> None:
    texts = ["<p>the dog<br>runs {a}</p>", "<p>the dog runs {a}</p>", "<p>a <b>cat</b> {a}</p>"]
    body = {"format": "html", "protect": protect, **EN_DE}

    def translate(q: str | list[str]) -> Any:
        return client.post("/translate", json={**body, "q": q}).json()["translatedText"]

    found = translate(texts)
    assert found == [translate(text) for text in texts]
    assert "<br>" in found[0]
    assert [text.count("{a}") for text in found] == {None: [1, 0, 0], True: [1, 1, 1], False: [0, 0, 0]}[protect]


def test_html_and_a_negative_number_have_no_alternatives(client: TestClient) -> None:
    html = {"q": "<p>the dog</p>", "format": "html", "alternatives": 3, **EN_DE}
    assert client.post("/translate", json=html).json()["alternatives"] == []
    assert client.post("/translate", json={**html, "q": [html["q"]] * 2}).json()["alternatives"] == [[], []]
    assert client.post("/translate", json={**html, "beam": 1}).json()["alternatives"] == []
    negative = client.post("/translate", json={"q": "dog", "alternatives": -1, **EN_DE}).json()
    assert "alternatives" not in negative


def test_no_break_spaces_of_html_are_kept_between_copied_words(client: TestClient) -> None:
    html = "<p>10&nbsp;000&nbsp;\n 5 <i>&nbsp;7</i></p>"
    answer = client.post("/translate", json={"q": html, "format": "html", **EN_DE}).json()
    assert answer["translatedText"] == "<p>10&nbsp;000 5 <i>7</i></p>"


def test_lines_spaces_and_sentences_are_kept(client: TestClient, model: ServedModel) -> None:
    first, second = model.translator.translate(["The farmer saw the dog and the cat.", "A cat sleeps."])
    assert first
    assert second
    text = "\n  The farmer saw the dog and the cat. A cat sleeps.\t\n\nA cat sleeps."
    answer = client.post("/translate", json={"q": text, **EN_DE}).json()
    assert answer["translatedText"] == f"\n  {first} {second}\t\n\n{second}"
    for end in ("\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"):
        other = client.post("/translate", json={"q": text.replace("\n", end), **EN_DE}).json()
        assert other["translatedText"] == answer["translatedText"].replace("\n", end)
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
    (n_best,) = model.translator.hypotheses(LINES[0], n=4)
    expected = list(dict.fromkeys(each.text for each in n_best if each.text))
    answer = client.post("/translate", json={"q": LINES[0], "alternatives": 3, **EN_DE}).json()
    assert [answer["translatedText"], *answer["alternatives"]] == expected
    # More than the model's beam of 5 holds.
    many = client.post("/translate", json={"q": [LINES[0]], "alternatives": 7, **EN_DE}).json()
    (n_best,) = model.translator.hypotheses(LINES[0], n=8, beam=8)
    assert many["alternatives"] == [list(dict.fromkeys(each.text for each in n_best if each.text))[1:]]


def test_a_client_may_choose_the_beam(client: TestClient, model: ServedModel) -> None:
    answer = client.post("/translate", json={"q": LINES, "beam": 1, **EN_DE}).json()
    assert answer["translatedText"] == model.translator.translate(LINES, beam=1)
    assert answer["translatedText"] != model.translator.translate(LINES)


def test_log_p_of_subwords_and_words(client: TestClient, model: ServedModel, serve: Serve) -> None:
    """Of the first translation, with the ends of its sentences; CTranslate2 does not compute them."""
    n_best = model.translator.hypotheses(LINES[:3], beam=3)
    other = ServedModel("other", model.translator.with_engine(Wrong()))
    for each in (client, serve(other)):
        body = {"q": ["\n".join(LINES[:2]), LINES[2]], "beam": 3, "log_probs": True, **EN_DE}
        answer = each.post("/translate", json=body).json()
        for name in ("pieces", "words"):
            first, second, third = (getattr(best, name) for (best,) in n_best)
            for found, expected in zip(answer[name], ([*first, *second], third), strict=True):
                texts, log_probs = zip(*expected, strict=True)
                assert [text for text, _ in found] == [*texts]
                assert [log_prob for _, log_prob in found] == pytest.approx(log_probs, abs=1e-3)
        (one,) = n_best[2]
        end = one.pieces[-1][1] if one.finished else 0.0
        assert sum(log_prob for _, log_prob in answer["words"][1]) + end == pytest.approx(one.log_prob, abs=1e-3)
        single = each.post("/translate", json={**body, "q": LINES[2]}).json()
        assert [word for word, _ in single["words"]] == [word for word, _ in one.words]
    assert {"pieces", "words"}.isdisjoint(client.post("/translate", json={"q": LINES, **EN_DE}).json())
    assert client.post("/translate", json={**EN_DE, "target": "en", "q": "a", "log_probs": True}).json()["words"] == []


class Wrong(Engine):
    """An engine that must not be asked."""

    def search(self, *_: Any) -> list[NBest]:
        raise AssertionError


def test_a_tag_says_which_kind_of_text_it_is(serve: Serve, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer(), control_symbols=["<crawl>"])
    translator = heed.load(run, device="cpu")
    client = serve(ServedModel("tagged", translator))
    expected = [translator.translate(LINES), translator.translate(LINES, tag="crawl")]
    assert expected[0] != expected[1]
    for tag, texts in zip((None, "crawl"), expected, strict=True):
        body = {"q": LINES, **EN_DE, **({"tag": tag} if tag else {})}
        assert client.post("/translate", json=body).json()["translatedText"] == texts
    answer = client.post("/translate", json={"q": LINES, **EN_DE, "tag": "news"})
    assert answer.status_code == 400
    assert answer.json()["error"] == "tag=news is not a tag of this model's training texts: it has <crawl>."


def test_a_translation_has_a_prefix_and_terms(client: TestClient, model: ServedModel) -> None:
    one = client.post("/translate", json={"q": LINES[0], "prefix": "a bi", **EN_DE}).json()["translatedText"]
    assert one == model.translator.translate(LINES[0], prefix="a bi")[0]
    assert one.startswith("a bi")
    terms = {LINES[1].split()[1]: ["house", "runs"], LINES[0].split()[1]: "cat"}
    expected = model.translator.translate(LINES, terms=terms)
    for sent in (
        {"json": {"q": LINES, "terms": terms, **EN_DE}},
        {"data": {"q": LINES, "terms": json.dumps(terms), **EN_DE}},
    ):
        assert client.post("/translate", **sent).json()["translatedText"] == expected  # type: ignore[arg-type]
    assert expected != model.translator.translate(LINES)
    assert "prefix is for one sentence, and q has 2" in error(client, 400, q=LINES[:2], prefix="a")
    assert "terms" in error(client, 400, terms=["a"])
    assert "terms" in error(client, 400, terms="{")
    assert "terms" in error(client, 400, terms={"a": ""})
    many = {str(number): "b" for number in range(101)}
    assert error(client, 400, terms=many) == "Invalid request: terms must have at most 100 items, not 101."
    assert "terms.a must have at most 100 characters" in error(client, 400, terms={"a": "b" * 101})
    whole = client.post("/translate", json={"q": f"{LINES[0]}. {LINES[1]}", "prefix": "a bi", **EN_DE}).json()
    assert whole["translatedText"].startswith("a bi")  # a text with a prefix is not split


def test_the_words_of_a_translation_and_those_that_may_follow(client: TestClient, model: ServedModel) -> None:
    body = {"q": f" {LINES[0]}\n", "translation": f"{LINES[1]} ", **EN_DE}
    answer = client.post("/words", json=body).json()
    (expected,) = model.translator.score_words(LINES[0], LINES[1])
    words = [(each["text"], math.log(each["probability"])) for each in answer["words"]]
    assert [word for word, _ in words] == LINES[1].split() == [word for word, _ in expected]
    assert [log_prob for _, log_prob in words] == pytest.approx([log_prob for _, log_prob in expected])
    assert answer["candidates"] == []
    answer = client.post("/words", data={**body, "candidates": "5"}).json()
    candidates = [(each["text"], math.log(each["probability"])) for each in answer["candidates"]]
    expected = model.translator.next_words(LINES[0], LINES[1], n=5)
    assert candidates == [(word, pytest.approx(log_prob)) for word, log_prob in expected]
    refused = client.post("/words", json={**body, "candidates": 21})
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "Invalid request: candidates must be less than or equal to 20.",
    )


def test_a_model_may_have_a_search_without_a_beam(serve: Serve, model: ServedModel) -> None:
    own = model.translator
    for search in (
        {**DEFAULTS["mbr"], "beam": 2, "samples": 2},
        {**DEFAULTS["mbr"], "beam": 0, "samples": 3},
        DEFAULTS["sample"],
    ):
        translator = Translator(own.model, own.tokenizer, search, src_lang="en", tgt_lang="de")
        answer = serve(ServedModel("other", translator)).post("/translate", json={"q": LINES[0], **EN_DE})
        assert answer.json()["translatedText"] == (translator.translate(LINES[0])[0] or LINES[0])


def test_only_the_text_of_html_is_translated(client: TestClient, model: ServedModel) -> None:
    dog, cat = model.translator.translate(["the dog", "a cat & a dog"])
    html = '<p class="a">the\n dog</p><b title="the dog">a cat &amp; a dog</b><br/><pre>the dog</pre>'
    answer = client.post("/translate", json={"q": html, "format": "html", **EN_DE}).json()
    expected = f'<p class="a">{dog}</p><b title="the dog">{cat}</b><br/><pre>the dog</pre>'
    assert answer["translatedText"] == expected.replace("&", "&amp;")


@pytest.mark.parametrize(("kind", "text"), [("html", "<p>the <b>dog</b></p>"), ("md", "# the **dog**\n")])
def test_markup_is_put_around_aligned_words(client: TestClient, model: ServedModel, kind: str, text: str) -> None:
    (found,) = model.translator.hypotheses("the dog", alignments=True)[0]
    document = split_document(text, kind, model.translator, by_rules=True)
    (expected,) = document.versions([[found]], 1)
    texts = [text, "<p>a cat</p>" if kind == "html" else "a cat"]  # the second one needs no alignment
    answer = client.post("/translate", json={"q": texts, "format": kind.upper(), **EN_DE}).json()
    assert answer["translatedText"][0] == expected


def test_languages_of_a_request(client: TestClient) -> None:
    """A text in the target language stays as it is; codes match without case and region."""
    same = client.post("/translate", json={"q": "Hund", "source": "de", "target": "de"}).json()
    assert same == {"translatedText": "Hund"}
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
    return [model, ServedModel("back", back)]


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


def test_an_unknown_language_is_not_detected(serve: Serve, two: list[ServedModel]) -> None:
    client = serve(*two)
    client.app.state.service.models.sources[1] = "tlh"  # type: ignore[attr-defined]
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
        ({"source": "deu", "target": "eng_Latn"}, "is not available as a target language from German (de)"),
        ({"source": "auto", "target": "xx"}, "xx is not supported"),
        ({"source": ""}, "Invalid request: source must not be empty."),
        ({"q": None}, "q"),
        ({"q": 3}, "Invalid request: q must be a string or a list."),
        ({"q": ["a", 3]}, "q.1 must be a string"),
        ({"q": {"a": 1}}, "q"),
        ({"format": "pdf"}, "format must be 'text', 'html' or 'md'"),
        ({"beam": "x"}, "beam must be a valid integer"),
        ({"alternatives": 12}, "alternatives must be at most 11."),
        ({"beam": 1, "alternatives": 1}, "beam must be from 2"),
        ({"beam": 13}, "beam must be from 1 (alternatives + 1) to 12."),
        ({"q": "x" * 10_001}, "10,001 characters exceed the limit of 10,000."),
        ({"q": [""] * 501}, "501 texts exceed the limit of 500."),
        ({"q": "x\n" * 501}, "501 sentences exceed the limit of 500."),
        ({"q": "<p>dog</p", "format": "html"}, "not closed"),
    ],
)
def test_wrong_requests_get_a_sentence(client: TestClient, body: dict[str, object], message: str) -> None:
    assert message in error(client, 400, **body)


UNESCAPED = "Invalid request: a form is NAME=VALUE&NAME=VALUE: encode & as %26, or use --data-urlencode."
NOT_UTF8 = "Invalid request: the form is not UTF-8."


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (b"%A342", NOT_UTF8),
        (b"\xa342", NOT_UTF8),
        (b"42%20%EF%BF%BD", "42 \ufffd"),
        ("42 \ufffd £".encode(), "42 \ufffd £"),
        (b"1+%26+2=3", "1 & 2=3"),
        (b"Tom & the woman saw the dog.", UNESCAPED),
        (b"AT&T", UNESCAPED),
        (b"1&+2=3", UNESCAPED),
    ],
)
def test_no_text_of_a_form_is_lost(client: TestClient, value: bytes, answer: str) -> None:
    given = b"source=en&target=de&format=&q=" + value
    responses = [client.post("/translate", content=given, headers={"Content-Type": FORMS[0]})]
    if given.isascii():
        responses.append(client.post(f"/translate?{given.decode().replace(' ', '%20')}"))
    for response in responses:
        assert [*response.json().values()] == [answer]
        assert response.status_code == (400 if answer in (UNESCAPED, NOT_UTF8) else 200)


@pytest.mark.parametrize(("value", "answer"), [("£42 & 1".encode(), "£42 & 1"), (b"\xa342", NOT_UTF8)])
def test_multipart_forms_are_utf8(client: TestClient, value: bytes, answer: str) -> None:
    fields: dict[str, tuple[None, bytes]] = {"q": (None, value), "source": (None, b"en"), "target": (None, b"de")}
    assert [*client.post("/translate", files=fields).json().values()] == [answer]


@pytest.mark.parametrize("headers", [{}, {"Content-Type": FORMS[0]}, {"Content-Type": "text/plain"}])
def test_json_needs_no_content_type(client: TestClient, headers: dict[str, str]) -> None:
    body = json.dumps({"q": ["£42 & 1", "<b>5</b>"], "format": "HTML", **EN_DE}, ensure_ascii=False)
    answer = client.post("/translate", content=f"\n{body}", headers=headers).json()
    assert answer == {"translatedText": ["£42 &amp; 1", "<b>5</b>"]}
    assert client.post("/translate", content="{", headers=headers).json() == {
        "error": "Invalid request: the body is not JSON."
    }


def test_missing_parameters_are_named(client: TestClient) -> None:
    assert client.post("/translate", json={"q": "x"}).json()["error"].startswith("Invalid request: missing source")
    assert client.post("/translate").status_code == 400
    assert client.post("/detect", data={}).json()["error"] == "Invalid request: missing q parameter."


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"null", b"\xff", b"[" * 100_000, b'{"q": NaN}'])
def test_broken_json_gets_a_sentence(client: TestClient, body: bytes) -> None:
    response = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"] in (
        "Invalid request: the body is not JSON.",
        "Invalid request: the body must be a JSON object.",
        "Invalid request: q must be a string or a list; missing source parameter.",
    )


@pytest.mark.parametrize(("path", "fields"), [
    *(("/translate", {name: "\ud800"}) for name in ("q", "source", "target", "format", "model", "api_key")),
    ("/translate", {"q": ["\ud800"]}), *((path, {"q": "\ud800"}) for path in ("/detect", "/attend")),
    ("/attend", {"model": "\ud800"}),
])  # fmt: skip
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
        monkeypatch.setattr(app.state.service.models.routes[0].translator, "hypotheses", fail)
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
    for name, value in {"max_waiting": 10, "max_chars": 0}.items():
        with pytest.raises(HeedError, match=name):
            ServeSettings(**{name: value})


# ---- keys, ids, metrics


def test_a_key_is_needed_if_there_are_keys(serve: Serve) -> None:
    client = serve(api_keys=frozenset({"right", "other"}))
    assert "needs an API key" in error(client, 403)
    assert error(client, 403, api_key="wröng") == "Invalid API key."
    for path, body in (("/translate", {"q": "x", **EN_DE}), ("/detect", {"q": "x"}), ("/attend", {"q": "x", **EN_DE})):
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
    assert settings["textLimit"] == 500
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_openapi_describes_json_and_forms(client: TestClient) -> None:
    api = client.get("/openapi.json").json()
    content = api["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert {"application/json", "application/x-www-form-urlencoded"} <= content.keys()
    assert content["application/json"]["schema"]["required"] == ["q", "source", "target"]
    assert "422" not in api["paths"]["/translate"]["post"]["responses"]
    assert client.get("/spec").json() == api


def test_the_documentation_has_all_errors(client: TestClient) -> None:
    documented = re.findall(r"^\| (\d{3}) \|", (ROOT / "docs/serve.md").read_text(encoding="utf-8"), re.MULTILINE)
    responses = client.get("/openapi.json").json()["paths"]["/translate"]["post"]["responses"]
    assert sorted(responses) == ["200", *documented]
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src/heed/serve").glob("*.py"))
    names = set(re.findall(r"HTTPStatus\.([A-Z_]+)", code))
    assert {str(HTTPStatus[name].value) for name in names} <= set(documented)


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
    assert accepted_hosts(host, origins) == accepted


def test_hosts_are_compared_without_the_port(serve: Callable[..., TestClient]) -> None:
    client = serve(hosts=frozenset({"localhost", "::1"}))
    for host, status in {"localhost": 200, "LOCALHOST:5000": 200, "[::1]:5000": 200, "evil.example": 421,
                         "localhost.evil.example:5000": 421, "[": 421, "": 421}.items():  # fmt: skip
        response = client.get("/languages", headers={"Host": host})
        assert response.status_code == status, host
    assert client.get("/languages", headers={"Host": "evil.example"}).json()["error"].startswith("This server is for")
