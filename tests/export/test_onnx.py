"""Exports to ONNX translate as heed does, also sentences that are longer than those of the export."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heed
from heed.decoding import GreedySearch
from heed.export.to_onnx import OnnxEngine
from heed.models.transformer import Transformer
from tests import forkserver
from tests.conftest import RNN
from tests.export.models import LINES, PARAMETER_FREE, positions, transformer, write_run

pytestmark = pytest.mark.slow

Heed = Callable[..., tuple[int, str, str]]

VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm, rotary, RMSNorm, SwiGLU": {
        "norm": "post",
        "norm_kind": "rms",
        "activation": "swiglu",
        "positions": positions("rotary"),
    },
    "ALiBi, parameter-free": {"positions": positions("alibi"), "self_attention": PARAMETER_FREE},
}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, id=name, marks=[pytest.mark.full] * (name != "pre-norm"))
        for name, changes in VARIANTS.items()
    ],
)
def test_greedy_translations_are_those_of_heed(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = write_run(tmp_path / "run", transformer(encoder_layers=1, **changes))
    # In a process of its own: torch.export passes symbolic sizes, which the type checks of the tests refuse.
    command = [sys.executable, "-m", "heed", "export", run, "--to", "onnx"]
    result = forkserver.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "5 of 5 greedy translations are equal" in result.stdout
    assert not result.stderr
    model = heed.load(run)
    assert isinstance(model.model, Transformer)
    engine = OnnxEngine(run / "export" / "onnx", model.model)
    sources = model.tokenizer.encode_src([" ".join(LINES * 2), "the dog"])
    greedy = GreedySearch(max_length_factor=2.0, max_length_extra=10)
    ours, theirs = (each.translate_ids(sources, search=greedy) for each in (model, model.with_engine(engine)))
    assert [n_best[0].tokens for n_best in theirs] == [n_best[0].tokens for n_best in ours]


def test_an_rnn_is_refused(heed_cli: Heed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", RNN)
    status, _, err = heed_cli("export", run, "--to", "onnx")
    assert (status, "for transformers" in err) == (2, True)
    assert not list((run / "export").glob("*"))
