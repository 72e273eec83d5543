"""The feed-forward network and the norms against their formulas."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from heed.layers.feedforward import FeedForward
from heed.layers.residual import NORMS

B, N, D, F = 2, 5, 7, 11


def relu(x: float) -> float:
    return max(0.0, x)


def gelu(x: float) -> float:
    """x Φ(x) (Hendrycks & Gimpel 2016)."""
    return x * (1 + math.erf(x / 2**0.5)) / 2


@pytest.mark.parametrize("activation", [relu, gelu])
def test_equals_the_formula(activation: Callable[[float], float]) -> None:
    module = FeedForward(d_model=D, d_ff=F, activation=activation.__name__, dropout=0.5).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(B, N, D)
    hidden = torch.einsum("fd,bnd->bnf", module.up_projection.weight, x) + module.up_projection.bias
    hidden = torch.tensor([activation(number) for number in hidden.flatten().tolist()]).view_as(hidden)
    assert_close(
        module(x), torch.einsum("df,bnf->bnd", module.down_projection.weight, hidden) + module.down_projection.bias
    )


def test_swiglu_equals_the_formula() -> None:
    """(silu(x W) ⊗ x V) W_2 (Shazeer 2020, eq. 6), here with biases, number by number."""
    module = FeedForward(d_model=D, d_ff=F, activation="swiglu", dropout=0.5).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(B, N, D)
    found = module(x)
    for b in range(B):
        for n in range(N):
            wide = (module.up_projection.weight @ x[b, n] + module.up_projection.bias).tolist()
            hidden = [gate / (1 + math.exp(-gate)) * value for gate, value in zip(wide[:F], wide[F:], strict=True)]
            assert_close(
                found[b, n], module.down_projection.weight @ torch.tensor(hidden) + module.down_projection.bias
            )


def test_dropout_falls_on_the_hidden_units() -> None:
    module = FeedForward(d_model=D, d_ff=F, activation="relu", dropout=1.0).train()
    nn.init.normal_(module.down_projection.bias)
    assert_close(module(torch.randn(B, N, D)), module.down_projection.bias.expand(B, N, D))


@pytest.mark.parametrize("kind", NORMS)
def test_a_norm_equals_the_formula(kind: str) -> None:
    norm, x = NORMS[kind](D), torch.randn(B, N, D)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    gain, bias = norm.weight.tolist(), norm.bias.tolist() if kind == "layer" else [0.0] * D
    found = norm(x)
    for b in range(B):
        for n in range(N):
            row = x[b, n].tolist()
            mean = sum(row) / D if kind == "layer" else 0.0
            scale = (sum((number - mean) ** 2 for number in row) / D + (1e-5 if kind == "layer" else 1e-6)) ** 0.5
            expected = [(a - mean) / scale * g + c for a, g, c in zip(row, gain, bias, strict=True)]
            assert_close(found[b, n], torch.tensor(expected))


@pytest.mark.parametrize("kind", NORMS)
def test_a_norm_takes_bf16_states_with_fp32_weights(kind: str) -> None:
    """As autocast has them, without a warning."""
    norm, x = NORMS[kind](D).float(), torch.randn(B, N, D)
    assert_close(norm(x.bfloat16()).float(), norm(x.float()), atol=0.03, rtol=0)
