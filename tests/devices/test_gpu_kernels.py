"""scripts/benchmark/gpu_kernels.py: both sides of its comparison compute the same."""

import pytest
import torch
from benchmark.gpu_kernels import chunked_cross_entropy

from heed import kernels


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_chunked_cross_entropy_is_heeds(label_smoothing: float) -> None:
    hidden, weight = (torch.randn(rows, 16, dtype=torch.float64, requires_grad=True) for rows in (50, 70))
    target = torch.randint(70, (50,))
    ours, _ = kernels.cross_entropy(hidden, weight, None, target, label_smoothing=label_smoothing)
    theirs = chunked_cross_entropy(hidden, weight, target, label_smoothing=label_smoothing)
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-4)
    gradients = [torch.autograd.grad(loss, (hidden, weight)) for loss in (ours, theirs)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-5)
