"""``heed average``: means against a loop in float64, and weights that must not be averaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from heed.cli import main
from heed.data.pairs.tokenizer import Tokenizer
from heed.inference import model_folder
from heed.models.seq2seq import Seq2Seq
from heed.run_format import RUN_FORMAT
from tests.cli.models import Refused
from tests.tokenizers import train_tokenizer

EXTRA = {"src_lang": "en", "tgt_lang": "de", "search": {"beam": 3}}
BLEU = {100: 20.0, 200: 25.0, 300: 24.0, 400: 25.0}
"""BLEU by step. Steps 200 and 400 are equal: the earlier one ranks first."""


def tokenizer(line: str) -> Tokenizer:
    return train_tokenizer([line], vocab_size=20, model_type="char", hard_vocab_limit=False)


@pytest.fixture
def model(tiny_model: Callable[..., Seq2Seq]) -> Callable[..., Seq2Seq]:
    """``model(seed, family)`` builds a model with random weights for the tokenizer of "abcdefg"."""

    def build(seed: int, family: str = "transformer") -> Seq2Seq:
        torch.manual_seed(seed)
        vocab = tokenizer("abcdefg").src_vocab
        return tiny_model(family, src_vocab=vocab, tgt_vocab=vocab).float()

    return build


def save(folder: Path, model: Seq2Seq, *, letters: str = "abcdefg") -> Path:
    model_folder.save(folder, model, tokenizer(letters), extra=EXTRA)
    return folder


@pytest.fixture
def run(tmp_path: Path, model: Callable[..., Seq2Seq]) -> Path:
    """A run with four last and three best checkpoints: weights of seed ``step``, EMA of seed ``step + 1``."""
    folder = tmp_path / "run"
    save(folder / "model", model(0))
    (folder / "checkpoints").mkdir()
    rows = "".join(f"{step},,{bleu}\n{step},0.5,\n" for step, bleu in BLEU.items())
    (folder / "metrics.csv").write_text("step,loss,valid_bleu\n" + rows)
    for kind, steps in (("last", (100, 200, 300, 400)), ("best", (200, 300, 400))):
        for step in steps:
            checkpoint = {
                "heed_format": RUN_FORMAT,
                "state_dict": state(model(step)),
                "callbacks": {"ema": {"steps": step, "weights": model(step + 1).state_dict()}},
            }
            torch.save(checkpoint, folder / "checkpoints" / f"{kind}-{step:07d}.ckpt")
    return folder


def state(model: Seq2Seq) -> dict[str, Tensor]:
    return {f"model.{name}": tensor for name, tensor in model.state_dict().items()}


def means(*models: Seq2Seq) -> dict[str, Tensor]:
    states = [model.state_dict() for model in models]
    return {name: sum(state[name].double() for state in states) / len(states) for name in states[0]}


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        (["--last", "3"], (200, 300, 400)),
        (["{run}", "--last", "1"], (400, 400)),
        (["--best", "2"], (200, 400)),
        (["--best", "3"], (200, 300, 400)),
        (["--ema"], (201,)),
        (["{run}", "--best", "1"], (200, 200)),
    ],
)
def test_checkpoints_of_a_run(
    run: Path, tmp_path: Path, model: Any, options: list[str], seeds: tuple[int, ...], capsys: Any
) -> None:
    out = tmp_path / "new" / "model"
    assert main(["average", str(run), *(o.format(run=run) for o in options), "--out", str(out)]) == 0
    expected = means(*(model(seed) for seed in seeds))
    loaded = model_folder.load(out)
    for name, tensor in loaded.model.state_dict().items():
        torch.testing.assert_close(tensor, expected[name].float(), rtol=0, atol=0)
    assert loaded.tokenizer.digest == tokenizer("abcdefg").digest
    assert {key: loaded.config[key] for key in EXTRA} == EXTRA
    assert len(loaded.config["average_of"]) == len(seeds)
    assert capsys.readouterr().out.startswith(str(out))


def test_checkpoints_and_models_by_name(run: Path, tmp_path: Path, model: Any) -> None:
    files = [run / "checkpoints" / f"last-0000{step}.ckpt" for step in (100, 300)]
    other = save(tmp_path / "copy", model(7))
    cases: dict[str, tuple[list[Any], list[int]]] = {
        "checkpoints": (files, [100, 300]),
        "averages": ([*files, "--ema"], [101, 301]),
        "models": ([run, other], [0, 7]),
        "mixture": ([files[0], other], [100, 7]),
    }
    for name, (sources, seeds) in cases.items():
        assert main(["average", *map(str, sources), "--out", str(tmp_path / name)]) == 0
        expected = means(*(model(seed) for seed in seeds))
        for key, tensor in model_folder.load(tmp_path / name).model.state_dict().items():
            assert torch.equal(tensor, expected[key].float())


def test_sources_that_cannot_be_averaged_are_errors(run: Path, tmp_path: Path, model: Any, refused: Refused) -> None:
    rnn = save(tmp_path / "rnn", model(1, "rnn"))
    stranger = save(tmp_path / "stranger", model(1), letters="hijklmn")
    checkpoint = run / "checkpoints" / "last-0000100.ckpt"
    plain = run / "checkpoints" / "plain.ckpt"
    torch.save({"state_dict": state(model(1)), "callbacks": {}, "heed_format": RUN_FORMAT}, plain)
    small = run / "checkpoints" / "small.ckpt"
    torch.save({"state_dict": {"model.x": torch.zeros(2)}, "heed_format": RUN_FORMAT}, small)
    cut = run / "checkpoints" / "cut.ckpt"
    cut.write_bytes(checkpoint.read_bytes()[:5000])
    text = run / "checkpoints" / "text.ckpt"
    text.write_text("weights")
    full = save(tmp_path / "full", model(1))
    cases: list[tuple[list[Any], list[str]]] = [
        ([run, rnn], ["different architectures (", "family"]),
        ([run, stranger], ["different tokenizers"]),
        ([run], [f"{run} is a single model", "--last K"]),
        ([checkpoint], ["is a single model"]),
        ([run, "--last", 5], ["has 4 last checkpoints, not 5", "trainer.keep_last"]),
        ([run, "--best", 4], ["has 3 best checkpoints, not 4", "trainer.keep_best"]),
        ([run, "--last", 0], ["--last 0 must be at least 1"]),
        ([checkpoint, "--last", 2], ["--last and --best choose among the checkpoints of a run"]),
        ([plain, "--ema"], [str(plain), "holds no moving average"]),
        ([checkpoint, small], [str(small), "another architecture"]),
        ([checkpoint, cut], [str(cut), "damaged"]),
        ([checkpoint, text], [str(text), "not a checkpoint"]),
        ([checkpoint, run / "nothing.ckpt"], ["nothing.ckpt does not exist"]),
        ([checkpoint, tmp_path / "nowhere.ckpt"], ["does not exist"]),
    ]
    for arguments, words in cases:
        out = tmp_path / "out"
        error = refused("average", *arguments, "--out", out)
        assert all(word in error for word in words), error
        assert not out.exists()
    assert "already exists" in refused("average", run, "--best", 2, "--out", full)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ([1], [], "has no state_dict"),
        ({"state_dict": [1]}, [], "has no state_dict"),
        ({"state_dict": {"model.x": 1}}, [], "x is not a tensor"),
        ({"callbacks": {"ema": {"weights": 3}}}, ["--ema"], "has no weights"),
        ({"state_dict": {}}, ["--ema"], "has no callbacks"),
        ({"state_dict": {"model.x": torch.zeros(2)}}, [], "written by another version of heed"),
        ({"state_dict": {"model.x": torch.zeros(2)}, "heed_format": 9}, [], "written by another version of heed"),
        ({"state_dict": {"model.x": torch.tensor([torch.nan])}, "heed_format": RUN_FORMAT}, [], "are NaN or infinite"),
    ],
)
def test_foreign_checkpoints_are_refused(
    run: Path, tmp_path: Path, content: Any, options: list[str], words: str, refused: Refused
) -> None:
    path = run / "checkpoints" / "foreign.ckpt"
    torch.save(content, path)
    assert words in refused("average", path, path, *options, "--out", tmp_path / "out")
