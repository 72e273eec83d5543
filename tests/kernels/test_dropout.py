"""Dropout: rate, scale, independence, gradient."""

from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from heed import kernels

ROOMS = pytest.mark.parametrize("room", [F, kernels], ids=lambda room: room.__name__)
"""torch's own formula, and heed's kernel."""


@ROOMS
@given(st.floats(0.0, 1.0), st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(0, 2**32))
def test_every_number_is_dropped_or_scaled_and_so_is_its_gradient(
    room: ModuleType, p: float, shape: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    x = (torch.rand(shape) + 1).requires_grad_()
    dropped = room.dropout(x, p)
    kept = dropped != 0
    scale = float("inf") if p == 1 else 1 / (1 - p)
    if p < 0.99:  # above, rounding p to 65,536ths changes the scale
        assert_close(dropped[kept], x[kept] * scale, rtol=2e-3, atol=0)
    outer = torch.rand(shape)
    (gradient,) = torch.autograd.grad(dropped, x, outer)
    assert_close(gradient * x, outer * dropped)


@ROOMS
@pytest.mark.parametrize("p", [0.003, 0.1, 0.3, 0.5, 0.9])
def test_drops_as_often_as_asked_keeps_the_mean_and_draws_places_by_themselves(room: ModuleType, p: float) -> None:
    n = 400_000
    dropped = room.dropout(torch.ones(n), p)
    zeros = (dropped == 0).double()
    spread = (p * (1 - p) / n) ** 0.5
    assert abs(zeros.mean().item() - p) < 5 * spread
    assert abs(dropped.double().mean().item() - 1) < 5 * spread / (1 - p)
    for apart in range(1, 6):  # four places share a draw of 64 bits
        together = (zeros[apart:] * zeros[:-apart]).mean().item()
        assert abs(together - p**2) < 5 * ((p**2 + 2 * p**3) / n) ** 0.5


@ROOMS
def test_draws_from_torchs_generator_only(room: ModuleType) -> None:
    first, second = (torch.manual_seed(7) and room.dropout(torch.ones(1001), 0.3) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, room.dropout(torch.ones(1001), 0.3))
