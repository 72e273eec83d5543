"""What is dropped, how often, and what becomes of the rest."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from heed.layers.dropout import Dropout, SequenceDropout, dropout


@given(st.floats(0.0, 1.0), st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(0, 2**32))
def test_every_number_is_dropped_or_grown_and_so_is_its_gradient(p: float, shape: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x = (torch.rand(shape) + 1).requires_grad_()
    dropped = dropout(x, p)
    kept = dropped != 0
    growth = float("inf") if p == 1 else 1 / (1 - p)
    if p < 0.99:  # beyond, 65,536ths are too coarse to say what the growth is
        assert_close(dropped[kept], x[kept] * growth, rtol=2e-3, atol=0)
    outer = torch.rand(shape)
    (gradient,) = torch.autograd.grad(dropped, x, outer)
    assert_close(gradient * x, outer * dropped)


@pytest.mark.parametrize("p", [0.003, 0.1, 0.3, 0.5, 0.9])
def test_drops_as_often_as_asked_keeps_the_mean_and_draws_places_by_themselves(p: float) -> None:
    n = 400_000
    dropped = dropout(torch.ones(n), p)
    zeros = (dropped == 0).double()
    spread = (p * (1 - p) / n) ** 0.5
    assert abs(zeros.mean().item() - p) < 5 * spread
    assert abs(dropped.double().mean().item() - 1) < 5 * spread / (1 - p)
    for apart in range(1, 6):  # four places share a draw of 64 bits
        together = (zeros[apart:] * zeros[:-apart]).mean().item()
        assert abs(together - p**2) < 5 * ((p**2 + 2 * p**3) / n) ** 0.5


def test_draws_from_torchs_generator_only() -> None:
    first, second = (torch.manual_seed(7) and dropout(torch.ones(1001), 0.3) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, dropout(torch.ones(1001), 0.3))


def test_leaves_everything_as_it_is_when_not_training() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(5, 3))


def test_variational_dropout_drops_the_same_at_every_step() -> None:
    dropout = SequenceDropout(0.4, variational=True)
    mask = dropout.mask(101, 103, torch.device("cpu"))
    assert mask is not None
    assert_close(mask.unique(), torch.tensor([0.0, 1 / 0.6]), rtol=1e-4, atol=0)
    assert_close((mask == 0).double().mean().item(), 0.4, atol=0.02, rtol=0)
    x = torch.randn(101, 3, 103)
    assert_close(dropout(x, mask), torch.stack([x[:, t] * mask for t in range(3)], 1))
    assert dropout.eval().mask(101, 103, torch.device("cpu")) is None
    assert SequenceDropout(0.0, variational=True).mask(101, 103, torch.device("cpu")) is None


def test_standard_dropout_drops_anew_at_every_step() -> None:
    dropout = SequenceDropout(0.4, variational=False)
    assert dropout.mask(101, 103, torch.device("cpu")) is None
    dropped = dropout(torch.ones(101, 2, 103), None)
    assert_close((dropped == 0).double().mean().item(), 0.4, atol=0.02, rtol=0)
    assert not torch.equal(dropped[:, 0], dropped[:, 1])
