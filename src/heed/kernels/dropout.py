"""Dropout for CPUs."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heed.kernels.choice import on_cpu


def dropout(x: Float[Tensor, "*B"], p: float) -> Float[Tensor, "*B"]:
    """Set each element to zero with probability ``p`` and scale the others by 1 / (1 − p) (Srivastava et al. 2014).

    On a CPU ``p`` is rounded to a multiple of 2⁻¹⁶.
    """
    if not on_cpu(x) or not 0 < p < 1:
        return F.dropout(x, p)
    return _Dropout.apply(x, min(round(p * 2**16), 2**16 - 1))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    """Four elements share one random draw of 64 bits, where torch draws a float for each.

    Args:
        threshold: p · 2¹⁶.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = bits.view(torch.int16)[: x.numel()].view(x.shape)
        # 0 and 1 in the dtype of x: multiplication by booleans is slower.
        kept = torch.ge(bits, threshold - 2**15, out=torch.empty_like(bits, dtype=x.dtype))
        ctx.save_for_backward(kept)
        ctx.scale = 2**16 / (2**16 - threshold)
        return _scaled_product(x, kept, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _scaled_product(grad, kept, ctx.scale), None


def _scaled_product(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """Return x · y · scale in one pass over memory."""
    return torch.addcmul(x.new_zeros(()), x, y, value=scale)
