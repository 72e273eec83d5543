"""The lines before a run name the options that differ from the defaults."""

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from heed.launch.compose import find_differences


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], []),
        (["seed=1", "resume=true"], []),  # as the default; no option of the run itself
        (["model=rnn", "model.dropout=0.4", "seed=2"], ["model=rnn", "seed=2", "model.dropout=0.4"]),
        (["model=rnn", "model/attention=additive"], ["model=rnn", "model/attention=additive"]),
        (["data=multi30k", "model=transformer"], ["data=multi30k"]),  # their optimizer and positions are defaults
        (["data=multi30k", "optimizer=adamw"], ["data=multi30k", "optimizer=adamw"]),
        (["logger=[csv,wandb]"], []),
        (["~callbacks.ema", "callbacks.attention_maps=null"], ["callbacks.attention_maps=null", "callbacks.ema=null"]),
        (["+callbacks.mine._target_=a.B"], ["callbacks.mine._target_=a.B"]),
    ],
)
def test_options_that_differ(compose: Callable[..., DictConfig], overrides: list[str], expected: list[str]) -> None:
    assert find_differences(compose(*overrides)) == expected


def test_a_preset_is_named_with_its_options(compose: Callable[..., DictConfig]) -> None:
    found = find_differences(compose("experiment=multi30k_quick", "optimizer.lr=0.1"))
    assert found[0] == "experiment=multi30k_quick"
    assert {"data=multi30k", "model/positions=rotary", "tokenizer.vocab_size=8000", "optimizer.lr=0.1"} <= {*found}
    # The default again.
    assert "callbacks.attention_maps.sentences=5" not in found
