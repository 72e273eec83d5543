"""Fused search steps are those of the decoder's modules, wherever these are heed's own."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from heed import kernels
from heed.decoding.search import for_search
from heed.models import build_model
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import DecoderState, Seq2Seq
from heed.models.transformer import DecoderLayer, FusedTransformer, Transformer
from heed.symbols import BOS, EOS
from tests.conftest import TRANSFORMER

SRC = torch.tensor([[5, 6, 7, EOS], [9, EOS, 0, 0], [8, 8, EOS, 0]])
STEPS = ([4, 7, 5, 5, 9, 6], [6, 6, 6, 9, 4, 5], [9, 8, 7, 6, 5, 4])


def steps(model: Seq2Seq) -> list[torch.Tensor]:
    """Return the logits of some steps with two hypotheses of each sentence, which change places."""
    state: DecoderState = model.start(model.encode(SRC, SRC != 0))
    output, state = model.step(torch.full((len(SRC),), BOS), state)
    logits = [output.logits]
    state = state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    for tokens in STEPS:
        output, state = model.step(torch.tensor(tokens), state)
        logits.append(output.logits)
        state = state.reorder(torch.tensor([1, 0, 2, 2, 5, 4]))
    return logits


def randomised(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():  # biases, too, differ from 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture
def model(tiny_model: Callable[..., Any]) -> Transformer:
    model = tiny_model("transformer")
    assert isinstance(model, Transformer)
    return randomised(model)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
@pytest.mark.parametrize("norm_kind", ["layer", "rms"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_steps_are_those_of_the_modules(norm: Any, norm_kind: Any, activation: Any) -> None:
    config = replace(TRANSFORMER, norm=norm, norm_kind=norm_kind, activation=activation, output_bias=norm == "post")
    model = randomised(build_model(config, src_vocab=23, tgt_vocab=29, joint=False))
    names = [*model.state_dict()]
    with torch.no_grad():
        fused = for_search(model)
        assert isinstance(fused, FusedTransformer)
        for mine, theirs in zip(steps(fused), steps(model), strict=True):
            assert_close(mine, theirs)
        output, _ = fused.step(torch.full((len(SRC),), BOS), fused.start(fused.encode(SRC, SRC != 0)), maps=True)
        assert output.attention is not None
    assert [*model.state_dict()] == names


def layer(model: Transformer) -> Any:
    return cast(DecoderLayer, model.decoder[1])


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def _set(module: nn.Module, name: str, value: object) -> None:
    setattr(module, name, value)


MODIFICATIONS: dict[str, Callable[[Transformer], object]] = {
    "a hook": lambda model: layer(model).register_forward_hook(lambda *_: None),
    "a hook before": lambda model: layer(model).feed_forward.sublayer.down_projection.register_forward_pre_hook(
        lambda *_: None
    ),
    "a hook of the last norm": lambda model: model.decoder_norm.register_forward_hook(lambda *_: None),
    "a parametrization": lambda model: nn.utils.parametrize.register_parametrization(
        layer(model).feed_forward.sublayer.up_projection, "weight", Doubled()
    ),
    "a forward of its own": lambda model: _set(layer(model), "forward", layer(model).forward),
    "a step of its own": lambda model: _set(model, "step", model.step),
    "an embedding with a forward of its own": lambda model: _set(model.output, "forward", model.output.forward),
    "a wrapped layer": lambda model: _set(
        layer(model).cross_attention.sublayer.attention,
        "query",
        nn.Sequential(layer(model).cross_attention.sublayer.attention.query, Doubled()),
    ),
    "another class of torch's": lambda model: _set(
        layer(model).feed_forward.sublayer,
        "down_projection",
        nn.Sequential(layer(model).feed_forward.sublayer.down_projection),
    ),
    "another attention of heed's": lambda model: _set(
        layer(model).self_attention, "sublayer", layer(model).cross_attention.sublayer
    ),
    "relative positions": lambda model: _set(
        layer(model).self_attention.sublayer.attention, "positions", model.tgt_positions
    ),
    "no residual connection": lambda model: _set(layer(model).feed_forward, "add", False),
    "another output layer": lambda model: _set(model, "output", nn.Embedding(29, 20)),
    "dropout": lambda model: layer(model).train(),
}


@pytest.mark.parametrize("what", MODIFICATIONS)
def test_steps_of_a_modified_decoder_are_not_fused(model: Transformer, what: str) -> None:
    with torch.no_grad():
        assert for_search(model) is not model
        MODIFICATIONS[what](model)
        assert for_search(model) is model


SETTINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "gradients": nullcontext,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "plain kernels": kernels.plain,
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_in_which_steps_are_not_fused(model: Transformer, setting: str) -> None:
    with torch.set_grad_enabled(setting == "gradients"), SETTINGS[setting]():
        assert for_search(model) is model


def test_a_hook_of_all_modules(model: Transformer) -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    with torch.no_grad():
        assert for_search(model) is model
        handle.remove()
        assert for_search(model) is not model


def test_the_members_of_an_ensemble_are_fused(model: Transformer, tiny_model: Callable[..., Seq2Seq]) -> None:
    ensemble = Ensemble([model, tiny_model("rnn")])
    with torch.no_grad():
        fused = for_search(ensemble)
        assert [type(member) for member in fused.members] == [FusedTransformer, type(ensemble.members[1])]  # type: ignore[union-attr,arg-type]
        for mine, theirs in zip(steps(fused), steps(ensemble), strict=True):
            assert_close(mine, theirs)
        MODIFICATIONS["a hook"](model)
        assert for_search(ensemble).members[0] is model  # type: ignore[union-attr,index]
