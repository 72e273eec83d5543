"""The norms against their formulas."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from heed.layers.residual import NORMS

B, N, D = 2, 3, 5


@pytest.mark.parametrize("kind", NORMS)
def test_equals_the_formula(kind: str) -> None:
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
def test_takes_bf16_states_with_fp32_weights(kind: str) -> None:
    """As autocast has them, without a warning."""
    norm, x = NORMS[kind](D).float(), torch.randn(B, N, D)
    assert_close(norm(x.bfloat16()).float(), norm(x.float()), atol=0.03, rtol=0)
