"""Exports to CTranslate2 translate as heed does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heed
from heed.errors import HeedError
from heed.exchange import parity, to_ctranslate2
from heed.exchange.to_ctranslate2 import CTranslate2Engine
from heed.inference.searches import SearchOptions
from heed.symbols import UNK
from tests.exchange.models import LINES, UNSCALED, positions, transformer, write_model, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]

VARIANTS: dict[str, tuple[dict[str, Any], bool]] = {
    "pre-norm, ReLU": ({}, True),
    "post-norm, two tokenizers": ({"norm": "post"}, False),
    "post-norm, SiLU, output bias": ({"norm": "post", "activation": "silu", "output_bias": True}, True),
    "RMSNorm, SwiGLU, rotary": ({"norm_kind": "rms", "activation": "swiglu", "positions": positions("rotary")}, True),
    "post-norm, RMSNorm, GELU, learned": (
        {"norm": "post", "norm_kind": "rms", "activation": "gelu", "positions": positions("learned", "add", 30)},
        True,
    ),
    "concatenated positions": ({"positions": positions("sinusoidal", "concat")}, False),
    "no positions, untied": ({"positions": positions("none"), "tie_embeddings": False}, True),
    "unscaled": ({"self_attention": UNSCALED}, True),
}


@pytest.mark.parametrize(("changes", "joint"), VARIANTS.values(), ids=VARIANTS)
def test_greedy_translations_are_those_of_heed(
    heed_cli: Heed, tmp_path: Path, changes: dict[str, Any], joint: bool
) -> None:
    run = write_run(tmp_path / "run", transformer(**changes), joint=joint)
    status, out, err = heed_cli("export", run, "--to", "ctranslate2")
    assert status == 0, err
    assert "5 of 5 greedy translations are equal" in out
    engine = CTranslate2Engine(run / "export" / "ctranslate2")
    sentences = [*LINES, "", " ", "ünknown dog"]
    translator = heed.load(run, device="cpu")
    assert translator.with_engine(engine).translate(sentences, beam=1) == translator.translate(sentences, beam=1)


@pytest.mark.parametrize("kind", ["word", "char"])
@pytest.mark.parametrize("joint", [True, False])
def test_words_and_characters_are_those_of_heed(heed_cli: Heed, tmp_path: Path, kind: str, joint: bool) -> None:
    pieces = {"model_type": kind, "vocab_size": 10, "hard_vocab_limit": False}
    run = write_run(tmp_path / "run", transformer(), joint=joint, **pieces)
    status, out, err = heed_cli("export", run, "--to", "ctranslate2")
    assert status == 0, err
    assert "5 of 5 greedy translations are equal" in out
    translator = heed.load(run, device="cpu")
    other = translator.with_engine(CTranslate2Engine(run / "export" / "ctranslate2"))
    sentences = [*LINES, "the unknown words here", "ß", ""]
    ours = translator.translate(sentences, beam=1)
    assert other.translate(sentences, beam=1) == ours
    assert any(UNK in ids for ids in translator.tokenizer.encode_src(sentences))


def test_no_sequence_occurs_twice_there_either(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer())
    translator = heed.load(run, device="cpu")
    to_ctranslate2.export(translator, tmp_path / "out", parity.validation_set(run, translator.directions))
    other = translator.with_engine(CTranslate2Engine(tmp_path / "out"))
    for size in (1, 2, 3):
        options: SearchOptions = {"beam": 1, "no_repeat_ngram_size": size}
        assert other.translate(LINES, **options) == translator.translate(LINES, **options)
    assert translator.translate(LINES, beam=1, no_repeat_ngram_size=1) != translator.translate(LINES, beam=1)
    for options in ({"prefix": "a"}, {"terms": {"dog": "cat"}}):
        with pytest.raises(HeedError, match="CTranslate2 knows neither prefixes nor terms"):
            other.translate(LINES, **options)


@pytest.mark.parametrize(
    ("kind", "limit"), [(positions("sinusoidal", "add"), 2048), (positions("learned", "add", 30), 30)], ids=str
)
def test_long_sentences_use_all_positions_and_longer_ones_are_refused(tmp_path: Path, kind: Any, limit: int) -> None:
    run = write_run(tmp_path / "run", transformer(positions=kind))
    translator = heed.load(run, device="cpu", max_tokens=None)
    to_ctranslate2.export(translator, tmp_path / "out", parity.validation_set(run, translator.directions))
    translator = translator.with_engine(CTranslate2Engine(tmp_path / "out"))
    (found,) = translator.translate_ids([[5] * (limit - 1)])
    assert len(found[0].tokens) <= limit
    with pytest.raises(HeedError, match=rf"longer than the {limit:,} positions"):
        translator.translate_ids([[5] * limit])


def test_the_check_uses_the_validation_set_of_the_first_direction(tmp_path: Path) -> None:
    texts = tmp_path / "translations"
    texts.mkdir()
    for name in ("valid-en-de.src", "valid-de-en.ref", "valid-de-en.src", "valid-en-de.ref"):
        (texts / name).write_text(f"{name}\n")

    def check(run: Path, *directions: str) -> parity.CheckSet:
        return parity.validation_set(run, directions)

    for run in (tmp_path, tmp_path / "model"):
        assert check(run, "de-en", "en-de").sources == ["valid-de-en.src"]
        assert check(run, "en-de", "de-en").references == ["valid-en-de.ref"]
    with pytest.raises(HeedError, match=r"has no validation set of fr-de .* --check FILE"):
        check(tmp_path, "fr-de", "de-en")


def test_quantized_exports_report_bleu_and_are_smaller(heed_cli: Heed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", transformer(d_model=64))
    assert heed_cli("export", run, "--to", "ctranslate2")[0] == 0
    status, out, err = heed_cli("export", run, "--to", "ctranslate2", "--quantization", "int8")
    assert status == 0, err
    assert "BLEU (greedy)" in out
    plain, small = (run / "export" / name for name in ("ctranslate2", "ctranslate2-int8"))
    assert (small / "model.bin").stat().st_size < (plain / "model.bin").stat().st_size
    description = json.loads((small / "heed.json").read_text())
    assert description["quantization"] == "int8"
    assert description["check"]["sentences"] == len(LINES)


def test_the_size_of_a_model_folder_is_without_its_exports(heed_cli: Heed, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", transformer())
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "model" / "export").mkdir()
    (tmp_path / "model" / "export" / "large").write_bytes(bytes(9_000_000))
    status, out, err = heed_cli("export", model, "--to", "ctranslate2", "--check", tmp_path / "lines")
    assert status == 0, err
    assert "heed's model folder: 0." in out


def test_a_model_folder_needs_sentences_for_the_check(heed_cli: Heed, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", transformer())
    status, _, err = heed_cli("export", model, "--to", "ctranslate2", "--out", tmp_path / "out")
    assert status == 2
    assert "--check FILE" in err
    (tmp_path / "lines.txt").write_text("the dog\n\n")
    status, out, err = heed_cli(
        "export", model, "--to", "ctranslate2", "--out", tmp_path / "out", "--check", tmp_path / "lines.txt"
    )
    assert status == 0, err
    assert "1 of 1 greedy" in out


@pytest.mark.parametrize("content", [None, "{", '{"to": "page", "src_lang": "", "tgt_lang": ""}', "[]"])
def test_the_engine_refuses_other_folders(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "heed.json").write_text(content)
    with pytest.raises(HeedError, match=r"heed\.json"):
        CTranslate2Engine(tmp_path)
