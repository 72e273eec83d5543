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
from heed.exchange import parity, to_ctranslate2
from heed.inference import model_folder
from tests.conftest import RNN
from tests.exchange.models import LINES, positions, transformer, write_model, write_run

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

    monkeypatch.setattr(parity, "CHECKED_SENTENCES", 20)

    return translated


def test_greedy_results_are_those_of_heed(tmp_path: Path, translate: Heed) -> None:
    run = write_run(tmp_path / "run", transformer())
    expected = [best for (best,) in heed.load(run, device="cpu").hypotheses(SENTENCES, beam=1, alignments=True)]
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


def test_on_a_gpu_it_has_to_be_asked_for(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model", transformer())
    model = heed.load(path, device="cpu")
    model.model.to("meta")
    with pytest.raises(HeedError, match=r"^On a GPU, CTranslate2 is not faster\.$"):
        to_ctranslate2.load_engine([path], model, required=False)
    with pytest.raises(HeedError, match=r"^CTranslate2 cannot use the device meta\.$"):
        to_ctranslate2.load_engine([path], model, required=True)
    assert not (path / "ctranslate2").exists()


def test_beam_search_does_not_depend_on_the_batch(tmp_path: Path) -> None:
    model = to_ctranslate2.load(write_run(tmp_path / "run", transformer()), device="cpu")
    together = model.hypotheses(SENTENCES, n=3)
    alone = [model.hypotheses([line], n=3)[0] for line in SENTENCES]
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
    assert "export" not in translate(model)[2]
    (export,) = (path for path in (model / "ctranslate2").iterdir() if path.is_dir())
    (export / "model.bin").write_bytes(b"damaged")
    assert "exporting" in translate(model)[2]
    write_model(model, transformer(), seed=2)
    status, out, err = translate(model, "--beam", 1)
    assert "exporting" in err
    assert out.splitlines() == heed.load(model, device="cpu").translate(SENTENCES, beam=1)
    assert status == 0


def test_translations_may_be_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_model(tmp_path / "model", transformer(), seed=10)  # its translation of two sources is empty
    monkeypatch.setattr(parity, "CHECKED_SENTENCES", 60)
    sources = parity.random_set(model_folder.load(model).tokenizer).sources
    ours = heed.load(model, device="cpu").translate(sources, beam=1)
    assert "" in ours
    assert to_ctranslate2.load(model, device="cpu").translate(sources, beam=1) == ours


def test_the_best_hypothesis_with_text_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "CHECKED_SENTENCES", 20)
    model = to_ctranslate2.load(write_model(tmp_path / "model", transformer(), seed=14), device="cpu")
    lines = [*LINES, "5", "🙂"]
    every = model.without_fallbacks().hypotheses(LINES, n=5)
    assert {n_best[0].text for n_best in every} == {""}
    assert model.translate(lines) == [*(next(each.text for each in n_best if each.text) for n_best in every), "5", "🙂"]


def test_the_export_of_a_read_only_folder_is_in_the_cache(
    tmp_path: Path, translate: Heed, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "model", transformer())
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(to_ctranslate2.os, "access", lambda path, mode: False)
    assert "exporting" in translate(model)[2]
    assert "export" not in translate(model)[2]
    assert not (model / "ctranslate2").exists()
    assert (tmp_path / "home" / ".cache" / "heed" / "ctranslate2").is_dir()


def test_without_a_place_for_the_export_heed_translates(
    tmp_path: Path, translate: Heed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", transformer())
    monkeypatch.setattr(to_ctranslate2.os, "access", lambda path, mode: False)
    (tmp_path / "file").touch()
    nowhere = "There is no folder for caches: set HOME or XDG_CACHE_HOME to a writable folder."
    not_a_folder = "set XDG_CACHE_HOME=DIR to a writable folder, or make room."
    for name, message in {"": nowhere, tmp_path / "file": not_a_folder}.items():
        monkeypatch.setenv("XDG_CACHE_HOME", str(name))
        monkeypatch.setattr(Path, "home", no_home)
        status, out, err = translate(run, "--engine", "auto")
        assert (status, len(out.splitlines())) == (0, len(SENTENCES))
        assert err.startswith("heed: heed's own engine translates. ")
        assert message in err
        status, out, err = translate(run)
        assert (status, out, len(err.splitlines())) == (2, "", 1)


def no_home() -> Path:
    """Fail as `Path.home` does without HOME for a user without a passwd entry."""
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        (RNN, [], "recurrent"),
        (transformer(positions=positions("alibi")), [], "ALiBi"),
        (transformer(), ["--model", "run"], "ensemble"),
        (transformer(), ["--mbr"], ""),
        (transformer(), ["--sample"], ""),
    ],
    ids=["RNN", "ALiBi", "ensemble", "MBR", "samples"],
)
def test_what_it_cannot_do_is_refused_and_auto_takes_heed(
    tmp_path: Path, translate: Heed, monkeypatch: pytest.MonkeyPatch, config: Any, options: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_run(Path("run"), config)
    status, out, err = translate(run, *options)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "Use --engine heed" in err
    assert reason in err
    status, out, err = translate(run, *options, "--engine", "auto")
    assert (status, len(out.splitlines())) == (0, len(SENTENCES))
    assert err.startswith("heed: heed's own engine translates. CTranslate2 ")
    assert not (run / "model" / "ctranslate2").exists()


def test_auto_takes_ctranslate2_if_it_is_installed(
    tmp_path: Path, translate: Heed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", transformer())
    status, _, err = translate(run, "--engine", "auto", "--beam", 0)
    assert (status, len(err.splitlines())) == (2, 1)
    assert "CTranslate2 4" in translate(run, "--engine", "auto")[2]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    status, _, err = translate(run, "--engine", "auto")
    assert (status, "CTranslate2" in err) == (0, False)
    status, _, err = translate(run)
    assert (status, len(err.splitlines())) == (2, 1)
    assert "pip install -e '.[export]'" in err


def test_auto_falls_back_when_the_export_differs(
    tmp_path: Path, translate: Heed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", transformer())
    monkeypatch.setattr(to_ctranslate2.CTranslate2Engine, "score", lambda self, source, target: 0.0)
    status, out, err = translate(run, "--engine", "auto", "--beam", 1)
    assert "heed's own engine translates. The export was not written" in err
    assert (status, out.splitlines()) == (0, heed.load(run, device="cpu").translate(SENTENCES, beam=1))


def test_a_direction_is_chosen_as_by_heed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    assert to_ctranslate2.load(run, device="cpu", direction="en-de").directions == ["en-de"]
    with pytest.raises(HeedError, match="de-en is not a direction"):
        to_ctranslate2.load(run, device="cpu", direction="de-en")


def test_the_model_folder_stays_loadable(tmp_path: Path, translate: Heed) -> None:
    model = write_model(tmp_path / "model", transformer())
    translate(model)
    assert model_folder.load(model).config["src_lang"] == "en"
