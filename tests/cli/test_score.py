"""``heed score`` compared with teacher forcing."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heed.inference import model_folder
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS
from tests.tokenizers import train_tokenizer

SOURCES = ["a man rides a bike .", "", "the dog sleeps ."]
TARGETS = ["Ein Mann fährt Rad.", "Oh.", ""]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_scores_are_log_probabilities_of_the_pairs(
    tmp_path: Path, heed: Callable[..., tuple[int, str, str]], tiny_model: Callable[..., Seq2Seq]
) -> None:
    tokenizer = train_tokenizer([*SOURCES, *TARGETS], vocab_size=60)
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    model_folder.save(tmp_path / "model", model, tokenizer, extra={})
    expected = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        src = torch.tensor([[*tokenizer.encode_src([source])[0], EOS]])
        (tgt,) = tokenizer.encode_tgt([target])
        with torch.no_grad():
            logits = model(src, torch.ones_like(src, dtype=torch.bool), torch.tensor([[BOS, *tgt]]))
        expected.append(logits.log_softmax(2)[0, range(len(tgt) + 1), [*tgt, EOS]].sum().item())

    src_file, tgt_file = write(tmp_path / "src", SOURCES), write(tmp_path / "tgt", TARGETS)
    status, out, err = heed("score", "--model", tmp_path / "model", "--src", src_file, "--tgt", tgt_file)
    assert (status, err) == (0, "")
    assert heed("score", tmp_path / "model", "--src", src_file, "--tgt", tgt_file) == (status, out, err)
    assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-4)

    short = write(tmp_path / "short", SOURCES[:2])
    status, out, err = heed("score", "--model", tmp_path / "model", "--src", short, "--tgt", tgt_file)
    assert (status, out) == (2, "")
    assert f"{short} has 2 lines and {tgt_file} 3" in err
