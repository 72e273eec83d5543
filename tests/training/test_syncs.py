"""Forward pass, backward pass and clipping make the host of an accelerator wait for nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from heed.training import module
from tests.syncs import counted

TINY = [
    "data=synthetic", "data.train=120", "data.valid=8", "data.test=8", "data.long=8", "test=false", "logger=none",
    "trainer=cpu", "trainer.max_steps=3", "trainer.validate_every=3", "batching.batch_tokens=300",
    "batching.device_tokens=200", "callbacks.attention_maps=null", "search=greedy",
]  # fmt: skip
RNN = ["model=rnn", "model.d_embedding=16", "model.d_model=16"]
TRANSFORMER = ["model=transformer_tiny", "model.d_model=16", "model.num_heads=2", "model.d_ff=32"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        [*TRANSFORMER, "model/positions=alibi", "model.layer_dropout=0.2"],
        [*RNN, "model.dropout_kind=variational", "module.r_drop=5.0"],
        *(
            pytest.param(options, marks=pytest.mark.full)
            for options in (
                TRANSFORMER,
                [*TRANSFORMER, "module.r_drop=5.0", "trainer.precision=32-true"],
                RNN,
                [*RNN, "model/attention=additive"],
                [*RNN, "model.attention.score=location", "model.attention.max_source=100"],
            )
        ),
    ],
)
def test_a_step_waits_for_nothing(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heed.launch.compose import compose
    from heed.launch.run import train_one_run

    calls, seen = [], []

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(function.__name__)
            with counted(monkeypatch) as found:
                result = function(*args, **kwargs)
            seen.extend(found)
            return result

        return call

    monkeypatch.setattr(module.TranslationModule, "_backward", counting(module.TranslationModule._backward))
    monkeypatch.setattr(module, "clip_gradients", counting(module.clip_gradients))
    train_one_run(compose([*TINY, *options, f"cache_dir={tmp_path}/cache"], folder=tmp_path), tmp_path)
    assert calls == ["_backward", "clip_gradients"] * 3
    assert not seen


def test_the_counter_sees_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([1.0, 0.0])
    syncs: list[Callable[[], object]] = [
        lambda: x.sum().item(),
        lambda: x.tolist(),
        lambda: bool(x[0]),
        lambda: x.nonzero(),
        lambda: x[x > 0],
        lambda: x.masked_select(x > 0),
        lambda: torch.equal(x, x),
        lambda: torch.unique_consecutive(x),
        lambda: x.cpu(),
    ]
    for number, sync in enumerate(syncs):
        with counted(monkeypatch) as seen:
            sync()
        assert seen, number
    with counted(monkeypatch) as seen:
        x[torch.tensor([1, 0])].sum()
    assert not seen
