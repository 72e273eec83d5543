"""``heed align``: links, error rates and maps, compared with those of the Translator."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import architectures
import numpy as np
import pytest
import yaml

from heed.data.pairs.tokenizer import Tokenizer
from heed.inference.loading import load
from heed.inference.translator import PAIRS_AT_ONCE, Translator
from heed.layers.positions import PositionsConfig
from heed.models import build_model
from heed.models.seq2seq import ModelConfig
from tests.cli.models import LINES as SOURCES
from tests.cli.models import Heed, TinyModel, save, save_model, write

TARGETS = [
    "ein Mann fährt Rad .",
    "",
    "der Hund schläft",
    "zwei Kinder spielen im größeren Park mit einem roten Ball .",
]

Align = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def align(tmp_path: Path, tiny_model: TinyModel, heed: Heed) -> Align:
    """``align(*options)``: exit status, output lines and standard error for the sentences above."""
    save_model(tmp_path / "model", tiny_model, text=SOURCES + TARGETS, vocab_size=90, scale=1.5)
    write(tmp_path / "src", SOURCES)
    write(tmp_path / "tgt", TARGETS)

    def run(*options: Any) -> tuple[int, list[str], str]:
        status, out, err = heed(
            "align", "--model", tmp_path, "--src", tmp_path / "src", "--tgt", tmp_path / "tgt", *options
        )
        return status, out.splitlines(), err

    return run


@pytest.fixture
def translator(tmp_path: Path, align: Align) -> Translator:
    return load(tmp_path)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"layer": 2, "head": 2, "row": "output"},
        {"layer": 2, "head": 0, "row": "input"},
        *({"head": 1, "symmetrize": how} for how in ("source", "intersection", "union", "grow-diag-final-and")),
    ],
)
def test_links_are_those_of_the_chosen_map(align: Align, translator: Translator, chosen: dict[str, Any]) -> None:
    status, lines, err = align(*(word for name, value in chosen.items() for word in (f"--{name}", value)))
    assert (status, err) == (0, "")
    links = translator.align(SOURCES, TARGETS, **chosen)
    assert lines == [" ".join(f"{src}-{tgt}" for src, tgt in pairs) for pairs in links]
    assert [not line for line in lines] == [False, True, False, False]


def test_default_map_is_the_saved_one(align: Align, tmp_path: Path) -> None:
    usual = align()[1]
    chosen = align("--layer", 2, "--head", 3, "--row", "input")[1]
    assert chosen != usual
    config = tmp_path / "model" / "config.yaml"
    plain = yaml.safe_load(config.read_text()) | {"alignment": {"layer": 2, "head": 3, "row": "input"}}
    config.write_text(yaml.safe_dump(plain))
    assert align()[1] == chosen
    assert align("--row", "output")[1] == align("--layer", 2, "--head", 3, "--row", "output")[1]
    assert align("--layer", 1)[1] == align("--layer", 1, "--head", 0)[1]


def test_error_rates_of_all_heads(align: Align, tmp_path: Path) -> None:
    _, lines, _ = align("--layer", 2, "--head", 4)
    gold = tmp_path / "gold"
    gold.write_text("\n".join(lines) + "\n")
    status, again, err = align("--gold", gold, "--layer", 1)
    assert (status, len(again)) == (0, 4)
    *table, written, best = err.splitlines()
    assert best.startswith("best:    --layer 2 --head 4 --row output  AER 0.000 [0.000, 0.000]  precision 1.000")
    assert written.startswith("written: --layer 1 --head 0 --row output  AER 0.")
    assert len(table) == 2 + 2 * 2
    assert table[3].split() == ["output", "2", *table[3].split()[2:5], "0.000", *table[3].split()[6:]]
    # The same links counted from 1, and all only possible.
    gold.write_text(re.sub(r"(\d+)-(\d+)", lambda link: f"{int(link[1]) + 1}p{int(link[2]) + 1}", gold.read_text()))
    _, _, err = align("--gold", gold, "--gold-from-1", "--layer", 2, "--head", 4)
    assert "written: --layer 2 --head 4 --row output  AER 0.000" in err
    gold.write_text(gold.read_text().replace("\n", " 99-1\n"))
    assert align("--gold", gold)[0] == 2
    assert align("--gold", gold, "--gold-from-1", "--gold-drop-outside", "--layer", 2, "--head", 4)[2] == err


def test_npz_holds_the_maps(align: Align, translator: Translator, tmp_path: Path) -> None:
    assert align("--npz", tmp_path / "maps.npz")[0] == 0
    with np.load(tmp_path / "maps.npz") as maps:
        assert len(maps.files) == 5 * len(SOURCES)
        for number, pair in enumerate(translator.attend(SOURCES, TARGETS)):
            np.testing.assert_allclose(maps[f"{number}.cross"], pair.cross, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--src", "nowhere"), "nowhere: No such file or directory."),
        (("--tgt", "short"), "src has 4 lines and .*short 2"),
        (("--layer", "9"), "--layer 9 --head 0: this model's decoder has layers 1 to 2 with heads 1 to 5"),
        (("--head", "6"), "--layer 1 --head 6"),
        (("--symmetrize", "best"), "--symmetrize best is unknown: choose one of target"),
        (("--gold", "short"), "short has 2 lines for 4 sentence pairs"),
        (("--gold", "outside"), "Line 3 of .*outside: 2-3 is out of range. The source has 4 words and the target 3"),
        (("--gold", "src"), "Line 1 of .*src: 'a' is not a link"),
        (("--npz", "no/where.npz"), "no/where.npz cannot be written: No such file"),
    ],
)
def test_errors_are_one_sentence(align: Align, tmp_path: Path, options: tuple[str, str], message: str) -> None:
    (tmp_path / "short").write_text("0-0\n\n")
    (tmp_path / "outside").write_text("0-0\n\n2-3\n\n")
    option, value = options
    if option in ("--src", "--tgt", "--gold", "--npz"):
        value = str(tmp_path / value)
    status, lines, err = align(option, value)
    assert status == 2
    assert lines == []
    assert len(err.splitlines()) == 1
    assert re.search(message, err)


def test_line_numbers_in_errors_are_those_of_the_file(tmp_path: Path, align: Align) -> None:
    """Also for lines after the first chunk."""
    lines = [*["a"] * (PAIRS_AT_ONCE + 2), "a man " * 30]
    for side in ("src", "tgt"):
        write(tmp_path / side, lines)
    positions = PositionsConfig(kind="learned", merge="add", max_length=20)
    replace_model(tmp_path / "model", replace(architectures.TRANSFORMER, positions=positions))
    status, _, err = align()
    assert status == 2
    assert f"Line {len(lines)}: " in err


def test_a_model_without_attention_is_refused(tmp_path: Path, align: Align) -> None:
    attention = replace(architectures.RNN.attention, score="none", input_feeding=False)
    replace_model(tmp_path / "model", replace(architectures.RNN, attention=attention))
    assert align() == (2, [], "heed: This model has no cross-attention, so it gives no alignments.\n")


def replace_model(folder: Path, config: ModelConfig) -> None:
    tokenizer = Tokenizer.load(folder)
    model = build_model(config, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=False)
    save(folder, model, tokenizer)
