"""Recurrent layers: step by step as in torch's kernels."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heed import kernels
from heed.functional.recurrence import CELLS
from heed.layers.recurrence import RecurrentLayer

B, T, D_IN, D = 3, 5, 7, 11
LENGTHS = torch.tensor([5, 1, 3])
SAME_LENGTHS = torch.tensor([5, 5, 5])


def case(cell: str) -> tuple[RecurrentLayer, Tensor, tuple[Tensor, ...]]:
    layer = RecurrentLayer(cell, input_width=D_IN, width=D)
    before = tuple(torch.randn(B, D, requires_grad=True) for _ in range(CELLS[cell].parts))
    return layer, torch.randn(B, T, D_IN, requires_grad=True), before


@pytest.mark.parametrize(("cell", "lengths"), [*product(CELLS, (None, LENGTHS))])
def test_step_by_step_equals_torchs_kernels(cell: str, lengths: Tensor | None) -> None:
    layer, x, before = case(cell)
    out, after = layer(x, before, lengths=lengths)
    with kernels.plain():
        stepped, stepped_after = layer(x, before, lengths=lengths)
    assert_close(stepped, out)
    assert_close(stepped_after, after)
    inputs = (x, *before, *layer.parameters())
    weigh = torch.randn(B, T, D)
    found = torch.autograd.grad((stepped * weigh).sum() + sum(map(torch.sum, stepped_after)), inputs)
    expected = torch.autograd.grad((out * weigh).sum() + sum(map(torch.sum, after)), inputs)
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize(("cell", "lengths"), [*product(CELLS, (None, LENGTHS, SAME_LENGTHS))])
def test_runs_in_bf16_on_any_cpu(cell: str, lengths: Tensor | None) -> None:
    layer, x, before = case(cell)
    layer, x, before = layer.float(), x.detach().float(), tuple(part.detach().float() for part in before)
    expected, _ = layer(x, before, lengths=lengths)
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = layer(x, before, lengths=lengths)
    assert_close(out.float(), expected, atol=0.05, rtol=0)
