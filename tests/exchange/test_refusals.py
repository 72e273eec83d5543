"""What ``heed export`` refuses, and that a failed or interrupted export leaves nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from heed.exchange import ctranslate2_model, parity
from tests.conftest import RNN
from tests.exchange.models import ADDITIVE, PARAMETER_FREE, positions, transformer, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]

ARCHITECTURES = {
    "rnn": RNN,
    "no norm": transformer(norm="none"),
    "no residuals": transformer(residual=False),
    "parameter-free": transformer(self_attention=PARAMETER_FREE),
    "additive": transformer(self_attention=ADDITIVE),
    "alibi": transformer(positions=positions("alibi")),
    "relative": transformer(positions=positions("relative")),
    "rotary": transformer(positions=positions("rotary")),
    "rms": transformer(norm_kind="rms"),
    "swiglu": transformer(activation="swiglu"),
    "untied": transformer(tie_embeddings=False),
}
REFUSED = [
    ("ctranslate2", "rnn", "recurrent"),
    ("ctranslate2", "no norm", "model.norm=none"),
    ("ctranslate2", "no residuals", "model.residual=false"),
    ("ctranslate2", "parameter-free", "parameter_free"),
    ("ctranslate2", "additive", "scores with weights"),
    ("ctranslate2", "alibi", "alibi"),
    ("ctranslate2", "relative", "kind=relative"),
    ("huggingface", "rnn", "recurrent"),
    ("huggingface", "additive", "scores with weights"),
    ("huggingface", "rotary", "kind=rotary"),
    ("huggingface", "rms", "norm_kind=rms"),
    ("huggingface", "swiglu", "swiglu"),
    ("huggingface", "untied", "separate embeddings"),
]


@pytest.mark.parametrize(("to", "architecture", "reason"), REFUSED)
def test_the_message_says_which_option_is_in_the_way(
    refused: Refused, tmp_path: Path, to: str, architecture: str, reason: str
) -> None:
    run = write_run(tmp_path / "run", ARCHITECTURES[architecture])
    err = refused("export", run, "--to", to)
    assert reason in err
    assert not list((run / "export").glob("*"))
    assert to != "huggingface" or architecture == "rnn" or "--to ctranslate2" in err


def test_other_refusals(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", transformer())
    assert "--quantization is for" in refused("export", run, "--to", "huggingface", "--quantization", "int8")
    assert "already exists" in refused("export", run, "--to", "ctranslate2", "--out", run / "model")
    monkeypatch.setitem(ctranslate2_model.EPSILON, "layer", 10.0)  # computes something else
    assert "differ from heed's" in refused("export", run, "--to", "ctranslate2")
    assert not list((run / "export").glob("*"))


def test_an_interrupted_export_leaves_nothing(heed_cli: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    run = write_run(tmp_path / "run", transformer())
    for name in ("_is_tie", "_score_difference"):
        monkeypatch.setattr(parity, name, interrupt)
    assert heed_cli("export", run, "--to", "ctranslate2")[0] == 130
    assert not [*(run / "export").glob("*")]
