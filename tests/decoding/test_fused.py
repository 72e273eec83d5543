"""Search steps of the fused decoder are those of the decoder's modules."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from heed import kernels
from heed.layers.feedforward import ACTIVATIONS
from heed.models.seq2seq import DecoderState
from heed.models.transformer import Transformer, TransformerState
from heed.symbols import BOS, EOS

SRC = torch.tensor([[5, 6, 7, EOS], [9, EOS, 0, 0], [8, 8, EOS, 0]])
STEPS = ([4, 7, 5, 5, 9, 6], [6, 6, 6, 9, 4, 5], [9, 8, 7, 6, 5, 4])


def steps(model: Transformer) -> tuple[list[torch.Tensor], DecoderState]:
    """Return the logits of some steps with two hypotheses of each sentence, which change places."""
    state: DecoderState = model.start(model.encode(SRC, SRC != 0))
    output, state = model.step(torch.full((len(SRC),), BOS), state)
    logits = [output.logits]
    state = state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    for tokens in STEPS:
        output, state = model.step(torch.tensor(tokens), state)
        logits.append(output.logits)
        state = state.reorder(torch.tensor([1, 0, 2, 2, 5, 4]))
    return logits, state


@pytest.fixture
def model(tiny_model: Callable[..., Any]) -> Transformer:
    model = tiny_model("transformer")
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():  # biases, too, differ from 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_steps_are_those_of_the_modules(model: Transformer, activation: str) -> None:
    for layer in model.decoder:
        layer.feed_forward.sublayer.activation = ACTIVATIONS[activation]  # type: ignore[union-attr]
    with torch.no_grad():
        fused, state = steps(model)
        with kernels.plain():
            expected, plain = steps(model)
    assert isinstance(state, TransformerState)
    assert state.fused is not None
    assert isinstance(plain, TransformerState)
    assert plain.fused is None
    for mine, theirs in zip(fused, expected, strict=True):
        assert_close(mine, theirs)


def test_where_steps_are_fused(model: Transformer) -> None:
    memory = model.encode(SRC, SRC != 0)
    assert model.start(memory).fused is None  # with gradient
    with torch.no_grad():
        state = model.start(memory)
        assert state.fused is not None
        assert model.train().start(memory).fused is None
        model.eval()
        # Attention maps are those of the modules.
        output, _ = model.step(torch.full((len(SRC),), BOS), state, maps=True)
        assert output.attention is not None
        model.config = replace(model.config, norm="post")
        assert model.start(memory).fused is None
    output, _ = model.step(torch.full((len(SRC),), BOS), state)
    assert output.logits.requires_grad
