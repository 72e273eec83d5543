"""``heed translate`` with prefixes, terms and without repetitions."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.models import SEARCH, Heed, Refused, TinyModel, save_model, write

LINES = ["a man rides a bike .", "the dog sleeps .", "children play ."]


@pytest.fixture
def folder(tmp_path: Path, tiny_model: TinyModel) -> Path:
    return save_model(tmp_path / "model", tiny_model, scale=2.0, search=SEARCH, src_lang="en", tgt_lang="de")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source.txt", LINES)


def test_prefixes_and_terms(heed: Heed, folder: Path, source: Path, tmp_path: Path) -> None:
    def translate(*options: object) -> list[str]:
        status, out, err = heed("translate", folder, "--input", source, *options)
        assert status == 0, err
        return out.splitlines()

    free = translate()
    assert all(line.startswith("a d") for line in translate("--prefix", "a d"))
    write(tmp_path / "prefixes.txt", ["", "two", "a bi"])
    found = translate("--prefix-file", tmp_path / "prefixes.txt")
    assert found[0] == free[0]
    assert found[1].startswith("two")
    assert found[2].startswith("a bi")
    write(tmp_path / "terms.tsv", ["dog\tpark|ball", "man\train"])
    found = translate("--terms", tmp_path / "terms.tsv", "--scores")
    assert re.search(r"\b[rR]ain\b", found[0])
    assert re.search(r"\b([pP]ark|[bB]all)\b", found[1])
    assert found[2].startswith(f"{free[2]} ||| ")
    objects = map(json.loads, translate("--no-repeat-ngram-size", 1, "--json", "--terms", tmp_path / "terms.tsv"))
    assert re.search(r"\b[rR]ain\b", next(objects)["translations"][0]["text"])


def test_an_interrupted_translation_goes_on_with_the_prefixes_of_the_lines_left(
    heed: Heed, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heed.cli.translate.LINES_AT_ONCE", 2)
    source = write(tmp_path / "source.txt", LINES * 3)
    prefixes = write(tmp_path / "prefixes.txt", ["a", "two", "a ma"] * 3)
    options = ("translate", folder, "--input", source, "--prefix-file", prefixes, "--beam", 1, "--output")
    assert heed(*options, tmp_path / "whole.txt")[0] == 0
    written: list[int] = []

    def formatted(args: Any, number: int, source: str, translations: Any) -> list[str]:
        if number == 5 and 5 not in written:
            written.append(number)
            raise ZeroDivisionError
        return [translations[0].text]

    monkeypatch.setattr("heed.cli.translate._format", formatted)
    with pytest.raises(ZeroDivisionError):
        heed(*options, tmp_path / "part.txt")
    assert heed(*options, tmp_path / "part.txt", "--resume")[0] == 0
    assert (tmp_path / "part.txt").read_text() == (tmp_path / "whole.txt").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefix", "a", "--prefix-file", "source.txt"], "--prefix and --prefix-file do not go together"),
        (["--prefix", "a", "--split-sentences"], "A prefix and --split-sentences do not go together"),
        (["--prefix", "a", "--engine", "ctranslate2"], "need heed's own engine: leave out --engine"),
        (["--prefix-file", "short.txt"], "Line 2 has no prefix: give one for each line, or one for all."),
        (["--terms", "short.txt"], r"short.txt, line 1 is no term: give the source words, a tab"),
        (["--terms", "missing.tsv"], r"missing.tsv"),
        (["--glossary", "short.txt"], r"--glossary is unknown \(in heed: --terms\)"),
        (["--no-repeat-ngram-size", "-1"], "search.no_repeat_ngram_size=-1"),
    ],
)
def test_contradictions_are_refused(
    refused: Refused, folder: Path, source: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    write(source.parent / "short.txt", ["a"])
    assert re.search(message, refused("translate", folder, "--input", source, *options))
