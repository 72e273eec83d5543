"""``heed align``: links, error rates and maps, compared with an independent pooling of attention."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from heed.cli import main
from heed.data.pairs.tokenizer import Tokenizer
from heed.inference import model_folder
from heed.inference.translator import PAIRS_AT_ONCE
from heed.layers.positions import PositionsConfig
from heed.models import build_model
from heed.models.rnn_config import AttentionConfig, RNNConfig
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer_config import TransformerConfig
from heed.symbols import BOS, EOS
from tests.tokenizers import train_tokenizer

SOURCES = ["a man rides a bike .", "", "the dog sleeps .", "two children play with a red ball in the park ."]
TARGETS = [
    "ein Mann fährt Rad .",
    "",
    "der Hund schläft",
    "zwei Kinder spielen im größeren Park mit einem roten Ball .",
]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return train_tokenizer(SOURCES + TARGETS, vocab_size=90)


@pytest.fixture
def model(tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> Seq2Seq:
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


@pytest.fixture
def align(
    tmp_path: Path, model: Seq2Seq, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[str], str]]:
    """``align(*options)``: exit status, output lines and standard error for the sentences above."""
    model_folder.save(tmp_path / "model", model, tokenizer, extra={})
    (tmp_path / "src").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    (tmp_path / "tgt").write_text("\n".join(TARGETS) + "\n", encoding="utf-8")

    def run(*options: Any) -> tuple[int, list[str], str]:
        given = ("--model", tmp_path, "--src", tmp_path / "src", "--tgt", tmp_path / "tgt")
        status = main(["align", *map(str, (*given, *options))])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err

    return run


def cross(model: Seq2Seq, tokenizer: Tokenizer, source: str, target: str) -> np.ndarray:
    """Return the model's cross-attention over pieces, "L H T S"."""
    (src,), (tgt,) = tokenizer.encode_src([source]), tokenizer.encode_tgt([target])
    src_ids, tgt_in = torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]])
    with torch.no_grad():
        memory = model.encode(src_ids, torch.ones_like(src_ids, dtype=torch.bool), maps=True)
        attention = model.decode(tgt_in, memory, maps=True).attention
    assert attention is not None
    assert attention.cross is not None
    return np.asarray(attention.cross[:, :, 0])


def reference_links(weights: np.ndarray, src_pieces: list[str], tgt_pieces: list[str], shift: int) -> str:
    """Return the links of each target word for one map "T S", where each word starts with a piece "▁…"."""
    rows: dict[int, list[np.ndarray]] = {}
    word = -1
    for t, piece in enumerate(tgt_pieces):
        word += piece.startswith("▁")
        if piece != "▁":
            rows.setdefault(word, []).append(weights[t + shift])
    src_word = np.cumsum([piece.startswith("▁") for piece in src_pieces]) - 1
    links = []
    for tgt, weights_of_pieces in rows.items():
        mean = np.mean(weights_of_pieces, axis=0)
        mass = [mean[:-1][(src_word == s) & (np.array(src_pieces) != "▁")].sum() for s in range(src_word[-1] + 1)]
        links.append((int(np.argmax(mass)), tgt))
    return " ".join(f"{s}-{t}" for s, t in sorted(links))


@pytest.mark.parametrize(("row", "shift"), [("output", 0), ("input", 1)])
@pytest.mark.parametrize("head", [2, 0])
def test_links_are_those_of_the_chosen_map(
    align: Any, model: Seq2Seq, tokenizer: Tokenizer, row: str, shift: int, head: int
) -> None:
    status, lines, err = align("--layer", 2, "--head", head, "--row", row)
    assert (status, err, len(lines), lines[1]) == (0, "", 4, "")
    for source, target, line in zip(SOURCES, TARGETS, lines, strict=True):
        if source:
            maps = cross(model, tokenizer, source, target)[1]
            pieces = (
                tokenizer.src_pieces(*tokenizer.encode_src([source])),
                tokenizer.tgt_pieces(*tokenizer.encode_tgt([target])),
            )
            assert line == reference_links(maps[head - 1] if head else maps.mean(0), *pieces, shift)


def test_default_map_is_the_saved_one(align: Any, tmp_path: Path) -> None:
    usual = align()[1]
    assert usual == align("--layer", 1, "--head", 0, "--row", "output")[1]
    chosen = align("--layer", 2, "--head", 3, "--row", "input")[1]
    assert chosen != usual
    config = tmp_path / "model" / "config.yaml"
    plain = yaml.safe_load(config.read_text()) | {"alignment": {"layer": 2, "head": 3, "row": "input"}}
    config.write_text(yaml.safe_dump(plain))
    assert align()[1] == chosen
    assert align("--row", "output")[1] == align("--layer", 2, "--head", 3, "--row", "output")[1]
    assert align("--layer", 1)[1] == align("--layer", 1, "--head", 0)[1]


def test_symmetrized_links_lie_between_intersection_and_union(align: Any) -> None:
    found = {
        how: [set(line.split()) for line in align("--head", 1, "--symmetrize", how)[1]]
        for how in ("target", "source", "intersection", "union", "grow-diag-final-and")
    }
    for line in range(4):
        forward, backward, grown = (found[how][line] for how in ("target", "source", "grow-diag-final-and"))
        assert found["intersection"][line] == forward & backward
        assert found["union"][line] == forward | backward
        assert forward & backward <= grown <= forward | backward
    assert found["target"] != found["source"]


def test_error_rates_of_all_heads(align: Any, tmp_path: Path) -> None:
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


def test_npz_holds_the_maps(align: Any, model: Seq2Seq, tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert align("--npz", tmp_path / "maps.npz")[0] == 0
    with np.load(tmp_path / "maps.npz") as maps:
        assert sorted(maps.files)[:5] == ["0.cross", "0.decoder_self", "0.encoder_self", "0.src", "0.tgt"]
        assert len(maps.files) == 5 * len(SOURCES)
        expected = cross(model, tokenizer, SOURCES[3], TARGETS[3])
        np.testing.assert_allclose(maps["3.cross"], expected, atol=1e-5)
        assert (len(maps["3.tgt"]), len(maps["3.src"])) == expected.shape[2:]
        assert maps["3.tgt"][-1] == "</s>"


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
def test_errors_are_one_sentence(align: Any, tmp_path: Path, options: tuple[str, str], message: str) -> None:
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


def test_line_numbers_in_errors_are_those_of_the_file(tmp_path: Path, align: Any) -> None:
    """Also for lines after the first chunk."""
    lines = [*["a"] * (PAIRS_AT_ONCE + 2), "a man " * 30]
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines))
    config = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text())
    positions = PositionsConfig(kind="learned", merge="add", max_length=20)
    shorter = TransformerConfig.from_plain(config["model"] | {"positions": vars(positions)})
    tokenizer = Tokenizer.load(tmp_path / "model")
    built = build_model(shorter, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=False)
    model_folder.save(tmp_path / "model", built, tokenizer, extra={})
    status, _, err = align()
    assert status == 2
    assert f"Line {len(lines)}: " in err


def test_a_model_without_attention_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RNNConfig(
        cell="gru",
        d_embedding=8,
        d_model=8,
        layers=1,
        residual=False,
        bidirectional=False,
        reverse_source=False,
        dropout=0.0,
        dropout_kind="standard",
        tie_embeddings=False,
        attention=AttentionConfig(
            score="none",
            reach="global",
            window=None,
            order="luong",
            input_feeding=False,
            coverage=False,
            max_source=None,
        ),
    )
    model = build_model(config, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=False)
    model_folder.save(tmp_path / "model", model, tokenizer, extra={})
    (tmp_path / "text").write_text("a dog\n")
    text = str(tmp_path / "text")
    assert main(["align", "--model", str(tmp_path), "--src", text, "--tgt", text]) == 2
    assert "has no cross-attention" in capsys.readouterr().err
