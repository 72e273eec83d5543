"""Text nodes of HTML, detection of languages, names."""

import shutil
from pathlib import Path

import pytest

import heed
from heed.files import read_yaml, yaml_text
from heed.languages import language_name
from heed.serve.detection import Detector
from heed.serve.errors import ApiError
from heed.serve.html import TextNode, parse
from heed.serve.models import default_names, samples


def texts(html: str) -> list[str]:
    return [piece.text for piece in parse(html) if isinstance(piece, TextNode)]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("plain", ["plain"]),
        ("<p>a<b>b</b>c", ["a", "b", "c"]),
        ("a &amp; b &lt;c&gt; &auml;&#228;", ["a & b <c> ää"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
        ("a<!-- no -->b<!DOCTYPE html>c<?php x ?>d", ["a", "b", "c", "d"]),
        ("a<script>if (a < b) { '<p>' }</script>b<style>p {}</style>", ["a", "b"]),
        ("a<code>x <b>y</b></code>b<pre>z</pre>", ["a", "b"]),
        ('a<span translate="no">Heed <i>x</i></span>b', ["a", "b"]),
        ('a<span class="x notranslate">Heed<br>x</span>b', ["a", "b"]),
        ('a<img translate="no">b', ["a", "b"]),
        ("", []),
    ],
)
def test_text_nodes(html: str, expected: list[str]) -> None:
    assert texts(html) == expected


def test_everything_else_is_copied() -> None:
    html = "<!DOCTYPE html>\n<P Class=a  b='c'>\nx</P ><br/>\n<!-- y --> &amp; <a href='?a=1&b=2'>z</a>\r\n"
    nodes = {"\nx": "\nx", "\n": "\n", " & ": " &amp; ", "z": "z", "\r\n": "\r\n"}
    copied = [nodes[piece.text] if isinstance(piece, TextNode) else piece for piece in parse(html)]
    assert "".join(copied) == html


@pytest.mark.parametrize("html", ["<p", "a <b>c</b", "a <!-- b", '<p class="', "<!DOCTYPE", "<script>a"])
def test_html_that_does_not_end_is_refused(html: str) -> None:
    with pytest.raises(ApiError, match="not closed"):
        parse(html)


@pytest.mark.parametrize("html", ["<![x[", "a <![x[b]]>", "<![", "<![;>", "<p><![textarea[", "<!DOCTYPE<![-"])
def test_html_with_a_malformed_declaration_is_refused(html: str) -> None:
    with pytest.raises(ApiError, match="cannot be translated"):
        parse(html)


SAMPLES = {
    "en": ["The dog runs through the house.", "What is the name of this cat?", "She has been working with them."],
    "de": ["Der Hund läuft durch das Haus.", "Wie ist der Name dieser Katze?", "Sie hat mit ihnen gearbeitet."],
    "ru": ["Собака бежит по дому.", "Как зовут эту кошку?"],
}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("This is the name of the dog.", "en"),
        ("Das ist der Name dieser Stadt.", "de"),
        ("ÜBER DAS HAUS", "de"),
        ("дом", "ru"),
    ],
)
def test_languages_are_detected_by_their_characters(text: str, language: str) -> None:
    found = Detector(SAMPLES).detect(text, list(SAMPLES))
    assert found[0][0] == language
    assert sum(share for _, share in found) == pytest.approx(1)
    assert found[0][1] > 0.6


def test_text_without_letters_is_as_likely_in_each_language() -> None:
    for text in ("", "1 + 2 = 3 😀"):
        assert Detector(SAMPLES).detect(text, ["en", "de"]) == [("en", 0.5), ("de", 0.5)]


def test_a_longer_text_is_more_certain() -> None:
    detector = Detector(SAMPLES)
    short, long = (dict(detector.detect(text, ["en", "de"]))["en"] for text in ("he", "he has been with them"))
    assert short < long < 1


def test_languages_without_sentences_are_not_known() -> None:
    assert list(Detector({"en": ["dog"], "de": ["", " "]}).counts) == ["en"]
    assert Detector({}).counts == {}


def test_names_of_languages() -> None:
    assert [language_name(code) for code in ("de", "pt_BR", "tlh")] == ["German", "Portuguese (BR)", "tlh"]


def test_languages_are_learned_from_the_validation_sets_of_all_directions(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder / "model", tmp_path / "model")
    config = read_yaml(tmp_path / "model" / "config.yaml")
    three = {**config, "directions": [["en", "de"], ["fr", "de"]]}
    (tmp_path / "model" / "config.yaml").write_text(yaml_text(three), encoding="utf-8")
    (tmp_path / "translations").mkdir()
    for name in ("valid.src", "valid.ref"):
        (tmp_path / "translations" / name).write_text(name)
    assert samples(tmp_path, heed.load(tmp_path)) == {"en": ["valid.src"], "de": ["valid.ref"]}
    for name in ("valid-fr-de.src", "valid-fr-de.ref"):
        (tmp_path / "translations" / name).write_text(name)
    expected = {"en": ["valid.src"], "de": ["valid.ref", "valid-fr-de.ref"], "fr": ["valid-fr-de.src"]}
    assert samples(tmp_path, heed.load(tmp_path)) == expected


def test_names_of_models(tmp_path: Path) -> None:
    paths = ["runs/rnn/2026-01-02_03-04-05", "runs/rnn/2026-02-02_03-04-05", "runs/base/2026-01-02_03-04-05/model", "x"]
    assert default_names([tmp_path / path for path in paths]) == ["rnn", "rnn-2", "base", "x"]
