"""Linear maps repeated over time steps, and casts for matrix products, against autograd and autocast."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from heed.functional.linear import LinearMap
from heed.kernels import cast_for_matmul, repeated_linear


def recurrence(apply: LinearMap, x: Tensor, steps: int) -> Tensor:
    states = []
    for _ in range(steps):
        x = torch.tanh(apply(x))
        states.append(x)
    return torch.stack(states)


@pytest.mark.parametrize("heard", [5, 2])
@pytest.mark.parametrize("biased", [True, False])
def test_gradients_equal_those_of_a_linear_layer(biased: bool, heard: int) -> None:
    """Even where the loss hears of some steps only."""
    linear = nn.Linear(7, 7, bias=biased)
    x = torch.randn(3, 1, 7, requires_grad=True)
    inputs = (x, *linear.parameters())
    ours = recurrence(repeated_linear(linear.weight, linear.bias), x, 5)
    expected = recurrence(linear, x, 5)
    assert_close(ours, expected)
    upstream = torch.randn(heard, 3, 1, 7)
    # Twice: a second pass starts anew.
    for _ in range(2):
        assert_close(
            torch.autograd.grad(ours[:heard], inputs, upstream, retain_graph=True),
            torch.autograd.grad(expected[:heard], inputs, upstream, retain_graph=True),
        )


def test_weights_may_be_frozen() -> None:
    linear = nn.Linear(7, 7).requires_grad_(False)
    x = torch.randn(3, 7, requires_grad=True)
    ours, expected = (recurrence(apply, x, 3).sum() for apply in (repeated_linear(linear.weight, linear.bias), linear))
    assert_close(torch.autograd.grad(ours, x), torch.autograd.grad(expected, x))


def test_in_bf16_the_sum_is_rounded_once() -> None:
    linear = nn.Linear(16, 16).float()
    x = torch.randn(8, 16, dtype=torch.float32)
    gradients = {}
    with torch.autocast("cpu", torch.bfloat16):
        for name, apply in (("ours", repeated_linear(linear.weight, linear.bias)), ("plain", linear)):
            out = sum(apply(x * step).float().pow(2).sum() for step in range(30))
            assert isinstance(out, Tensor)
            (gradients[name],) = torch.autograd.grad(out, [linear.weight])
    exact = linear.double()
    out = sum(exact(x.double() * step).pow(2).sum() for step in range(30))
    assert isinstance(out, Tensor)
    (expected,) = torch.autograd.grad(out, [exact.weight])
    errors = {name: (found.double() - expected).norm() / expected.norm() for name, found in gradients.items()}
    assert gradients["ours"].dtype == torch.float32
    assert errors["ours"] < 0.01
    assert errors["ours"] <= errors["plain"] * 1.1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_cast_is_that_of_autocast(dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, dtype=dtype)
    assert cast_for_matmul(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert cast_for_matmul(x).dtype == (x @ x.T).dtype
        assert torch.equal(cast_for_matmul(x) @ cast_for_matmul(x).T, x @ x.T)
