"""Scaled dot-product attention against its definition, torch's own and known answers."""

from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heed.functional import causal_mask

B, T, S, H, E, V = 2, 5, 7, 3, 11, 13

MASKS = {
    "everything": torch.ones(1, 1, 1, S, dtype=torch.bool),
    "padding": (torch.arange(S) < torch.tensor([[S], [3]]))[:, None, None],
    "causal": causal_mask(T, S)[None, None],
    "an empty row": torch.arange(B * T * S).reshape(B, 1, T, S) >= 2 * S,
}
KINDS = {"everything": None, "causal": "causal"}
"""Masks which need no tensor."""
masks = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    shapes = (B, H, T, E), (B, H, S, E), (B, H, S, V)
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
    return query, key, value


@masks
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_equals_the_definition_and_so_do_its_gradients(
    room: ModuleType, need_weights: bool, biased: bool, scaled: bool, mask: Tensor
) -> None:
    inputs = qkv()
    query, key, value = inputs
    bias = torch.randn(1, H, T, S, requires_grad=True) if biased else None
    scores = torch.einsum("bhte,bhse->bhts", query, key) / (E**0.5 if scaled else 1)
    if bias is not None:
        inputs, scores = (*inputs, bias), scores + bias
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    expected_weights = exponentials / exponentials.sum(-1, keepdim=True).clamp_min(1e-300)
    expected = torch.einsum("bhts,bhsv->bhtv", expected_weights, value)

    context, weights = room.attend(query, key, value, mask, bias=bias, scaled=scaled, need_weights=need_weights)
    if need_weights:
        assert_close(weights, expected_weights)
    else:
        assert weights is None
    assert_close(context, expected)
    upstream = torch.randn_like(context)
    gradients = (torch.autograd.grad(output, inputs, upstream) for output in (context, expected))
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs)


def test_returned_weights_are_those_before_dropout(room: ModuleType) -> None:
    query, key, value = qkv()
    _, expected = room.attend(query, key, value, MASKS["padding"])
    context, weights = room.attend(query, key, value, MASKS["padding"], dropout=1.0)
    assert_close(weights, expected)
    assert not context.any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_masks_without_a_tensor(room: ModuleType, need_weights: bool, kind: str) -> None:
    for queries in (T, S, 1):
        query, key, value = torch.randn(B, H, queries, E), torch.randn(B, H, S, E), torch.randn(B, H, S, V)
        tensor = causal_mask(queries, S)[None, None] if kind == "causal" else MASKS[kind]
        mine = room.attend(query, key, value, KINDS[kind], need_weights=need_weights)
        for part, expected in zip(mine, room.attend(query, key, value, tensor, need_weights=need_weights), strict=True):
            assert_close(part, expected)
