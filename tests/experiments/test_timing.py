"""Memory that autograd saves."""

import torch
from experiments.timing import saved_bytes
from torch import Tensor, nn


def test_saved_bytes_are_those_a_linear_layer_needs() -> None:
    layer, x = nn.Linear(30, 40, bias=False), torch.randn(50, 30, requires_grad=True)

    def forward() -> Tensor:
        out: Tensor = layer(x)
        return out

    assert saved_bytes(forward) == 4 * (50 * 30 + 30 * 40)
