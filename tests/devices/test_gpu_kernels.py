"""scripts/benchmark/gpu_kernels.py: both sides of its comparisons compute the same."""

import pytest
import torch
from benchmark.gpu_kernels import AttentionCase, chunked_cross_entropy

from heed import kernels


@pytest.mark.parametrize("causal", [False, True])
def test_packed_attention_is_that_of_the_padded_batch(causal: bool) -> None:
    lengths = torch.tensor([3, 7, 5])
    queries, keys = (torch.arange(length) < lengths[:, None] for length in (8, 8 if causal else 11))
    case = AttentionCase(queries, keys, heads=2, causal=causal)
    assert case.difference() < 0.05
    # Without the mask, queries attend to padding, and the difference is seen.
    case.mask = None
    assert case.difference() > 0.1


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_chunked_cross_entropy_is_heeds(label_smoothing: float) -> None:
    hidden, weight = (torch.randn(rows, 16, dtype=torch.float64, requires_grad=True) for rows in (50, 70))
    target = torch.randint(70, (50,))
    ours, _ = kernels.cross_entropy(hidden, weight, None, target, label_smoothing=label_smoothing)
    theirs = chunked_cross_entropy(hidden, weight, target, label_smoothing=label_smoothing)
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-4)
    gradients = [torch.autograd.grad(loss, (hidden, weight)) for loss in (ours, theirs)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-5)
