"""The masked softmax against a loop over plain floats."""

import math
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from heed import functional, kernels
from heed.functional import causal_mask

Row = list[tuple[float, bool]]
rooms = pytest.mark.parametrize("room", [functional, kernels], ids=lambda room: room.__name__)

scores_and_mask = st.tuples(st.floats(-1e4, 1e4), st.booleans())
rectangles = st.integers(1, 7).flatmap(
    lambda width: st.lists(st.lists(scores_and_mask, min_size=width, max_size=width), min_size=1, max_size=5)
)


def distribution(row: Row) -> list[float]:
    """exp(s) / Σ exp(s') over the visible scores_and_mask, shifted by their maximum."""
    visible = [score for score, seen in row if seen]
    total = sum(math.exp(score - max(visible)) for score in visible)
    return [math.exp(score - max(visible)) / total if seen else 0.0 for score, seen in row]


@rooms
@given(rectangles)
def test_equals_the_formula_row_by_row(room: ModuleType, rows: list[Row]) -> None:
    scores = torch.tensor([[score for score, _ in row] for row in rows])
    mask = torch.tensor([[visible for _, visible in row] for row in rows])
    expected = torch.tensor([distribution(row) for row in rows])
    assert_close(room.masked_softmax(scores, mask), expected, rtol=1e-12, atol=1e-300)


@rooms
@given(rectangles)
def test_what_is_hidden_neither_matters_nor_learns(room: ModuleType, rows: list[Row]) -> None:
    scores = torch.tensor([[score for score, _ in row] for row in rows], requires_grad=True)
    mask = torch.tensor([[visible for _, visible in row] for row in rows])
    weights = room.masked_softmax(scores, mask)
    (gradient,) = torch.autograd.grad(weights, scores, torch.randn_like(weights))
    assert gradient.isfinite().all()
    assert not gradient[~mask].any()
    assert torch.equal(weights, room.masked_softmax(scores + 1e3 * torch.randn_like(scores) * ~mask, mask))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_row_with_nothing_to_see_is_zero_and_so_is_its_gradient(room: ModuleType, dtype: torch.dtype) -> None:
    scores = torch.randn(3, 5, dtype=dtype, requires_grad=True)
    mask = torch.tensor([True, False, True])[:, None].expand(3, 5)
    weights = room.masked_softmax(scores, mask)
    (weights * torch.randn_like(weights)).sum().backward()
    assert scores.grad is not None
    assert not weights[1].any()
    assert not scores.grad[1].any()
    assert scores.grad[[0, 2]].all()


@pytest.mark.parametrize("keys", [1, 14, 25, 64])
def test_in_bf16_the_kernel_rounds_the_exact_result(keys: int) -> None:
    scores = (4 * torch.randn(3, 9, keys)).bfloat16().requires_grad_()
    mask = torch.rand(3, 9, keys) < 0.7
    weights, exact = kernels.masked_softmax(scores, mask), functional.masked_softmax(scores.double(), mask)
    assert weights.dtype == torch.bfloat16
    assert_close(weights.double(), exact, rtol=2**-8, atol=1e-12)
    outer = torch.randn(3, 9, keys).bfloat16()
    ours, reference = (
        torch.autograd.grad(of, scores, direction)[0] for of, direction in ((weights, outer), (exact, outer.double()))
    )
    assert ours.dtype == torch.bfloat16
    assert_close(ours, reference, rtol=0.02, atol=0.02)


def test_gradient_is_that_of_the_function(room: ModuleType) -> None:
    mask = torch.rand(2, 3, 5) < 0.6
    mask[0, 1] = False
    assert torch.autograd.gradcheck(room.masked_softmax, (torch.randn(2, 3, 5, requires_grad=True), mask))


def test_mask_is_broadcast_over_batch_and_rows(room: ModuleType) -> None:
    scores, mask = torch.randn(2, 3, 5, 7), torch.rand(2, 1, 1, 7) < 0.6
    assert_close(room.masked_softmax(scores, mask), room.masked_softmax(scores, mask.expand(2, 3, 5, 7)))


def test_causal_mask_shows_the_past_and_the_present() -> None:
    assert causal_mask(5, 5).tolist() == [[key <= query for key in range(5)] for query in range(5)]
    assert causal_mask(2, 5).tolist() == [[True] * 4 + [False], [True] * 5]
