"""``heed synthesize``: pairs of models of both directions, and interrupted and repeated commands."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from heed.cli import translate
from heed.inference import loading
from tests.cli.models import Heed, Refused, TinyModel, save_model, write

SOURCES = ["a man rides a bike .", "", "the dog sleeps .", "two children play\twith a red ball"] * 6
TARGETS = ["ein mann fährt rad .", "der hund schläft ."]


@pytest.fixture
def folder(tmp_path: Path, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the models ``forward`` and ``back``, and with the files ``a.en`` and ``more.de``."""
    monkeypatch.setattr(translate, "LINES_AT_ONCE", 4)
    for seed, (name, src, tgt) in enumerate((("forward", "en", "de"), ("back", "de", "en"))):
        languages = {"src_lang": src, "tgt_lang": tgt}
        save_model(tmp_path / name, tiny_model, "rnn", text=[*SOURCES, *TARGETS], seed=seed, **languages)
    write(tmp_path / "a.en", SOURCES)
    write(tmp_path / "more.de", TARGETS)
    return tmp_path


def command(folder: Path, **changes: Any) -> list[str]:
    options = {"model": folder / "forward", "src": folder / "a.en", "reverse_model": folder / "back"}
    options |= {"tgt": folder / "more.de", "out": folder / "pairs", "beam": 2, **changes}
    given = [[f"--{name.replace('_', '-')}", str(value)] for name, value in options.items() if value is not None]
    return ["synthesize", *(word for words in given for word in words)]


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_each_model_writes_the_side_that_it_translates_to(folder: Path, heed: Heed) -> None:
    status, out, err = heed(*command(folder))
    assert status == 0, err
    assert "1.jsonl: en-de translations of" in out
    forward, back = (read(folder / "pairs" / name) for name in ("1.jsonl", "2.jsonl"))
    assert [pair["src"] for pair in forward] == SOURCES
    assert [pair["tgt"] for pair in back] == TARGETS
    expected = loading.load(folder / "forward").hypotheses(SOURCES, beam=2)
    assert [(pair["tgt"], pair["score"]) for pair in forward] == [
        (one.text, round(one.score, 4)) for (one,) in expected
    ]
    assert [pair["src"] for pair in back] == loading.load(folder / "back").translate(TARGETS, beam=2)
    entries = json.loads((folder / "pairs" / "manifest.json").read_text(encoding="utf-8"))
    assert {entry["engine"] for entry in entries.values()} == {"TorchEngine"}  # CTranslate2 has no RNN
    assert [(entry["model"], entry["text"]) for entry in entries.values()] == [
        (str(folder / "forward"), str(folder / "a.en")), (str(folder / "back"), str(folder / "more.de")),
    ]  # fmt: skip


@pytest.mark.parametrize("killed_after", [0, 3, 4, 11, 23])
def test_an_interrupted_command_ends_with_the_same_pairs(
    killed_after: int, folder: Path, heed: Heed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heed(*command(folder, out=folder / "whole"))[0] == 0
    translated = translate._translated_lines

    def killed(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from islice(translated(*args, **kwargs), killed_after)
        raise KeyboardInterrupt

    monkeypatch.setattr(translate, "_translated_lines", killed)
    assert heed(*command(folder))[0] == 130
    assert not (folder / "pairs" / "1.jsonl").exists()
    seen: list[int] = []

    def counted(*args: Any, done: int, **kwargs: Any) -> Iterator[Any]:
        seen.append(done)
        return translated(*args, done=done, **kwargs)

    monkeypatch.setattr(translate, "_translated_lines", counted)
    assert heed(*command(folder))[0] == 0
    assert seen == [killed_after // 4 * 4, 0], "whole blocks are kept"
    for name in ("1.jsonl", "2.jsonl"):
        assert (folder / "pairs" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    before = {file: file.stat().st_mtime_ns for file in (folder / "pairs").iterdir()}
    status, out, _ = heed(*command(folder))
    assert (status, out.count("complete")) == (0, 2)
    assert {file: file.stat().st_mtime_ns for file in (folder / "pairs").iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": None}, "--model and --src belong together: give both."),
        ({"reverse_model": None}, "--reverse-model and --tgt belong together: give both."),
        ({"model": None, "src": None, "reverse_model": None, "tgt": None}, "Give a model and the text to translate"),
        ({"beam": 3}, "1.jsonl was begun with another model, text or option: choose another --out."),
        ({"model": "back"}, "1.jsonl was begun with another model, text or option: choose another --out."),
        ({"model": "missing"}, "missing"),
        ({"src": "missing.en"}, "missing.en"),
    ],
    ids=str,
)
def test_mistakes_are_one_sentence(
    changes: dict[str, Any], message: str, folder: Path, heed: Heed, refused: Refused
) -> None:
    assert heed(*command(folder))[0] == 0
    before = {file: file.read_bytes() for file in (folder / "pairs").iterdir()}
    named = {key: folder / value if isinstance(value, str) else value for key, value in changes.items()}
    assert message in refused(*command(folder, **named))
    assert {file: file.read_bytes() for file in (folder / "pairs").iterdir()} == before
