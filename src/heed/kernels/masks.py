"""Masked softmax for CPUs."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heed import functional
from heed.kernels.choice import on_cpu


def masked_softmax(scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"] | None) -> Float[Tensor, "*B T S"]:
    """Compute :func:`heed.functional.masked_softmax`, on a CPU for all rows at once and in at least fp32."""
    if not on_cpu(scores):
        return functional.masked_softmax(scores, mask)
    return _MaskedSoftmax.apply(scores, None if mask is None else ~mask)  # type: ignore[no-untyped-call]


class _MaskedSoftmax(torch.autograd.Function):
    """Softmax over the last axis. torch's own goes row by row, which is slow for short rows.

    It can be differentiated once.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, hidden: Tensor | None) -> Tensor:
        wide = torch.promote_types(scores.dtype, torch.float32)
        visible = scores.to(wide, copy=True)
        if hidden is not None:
            visible.masked_fill_(hidden, -torch.inf)
        # Clamped: a row of -inf gives 0 / tiny = 0 instead of NaN.
        exps = visible.sub_(visible.amax(-1, keepdim=True).clamp_min_(torch.finfo(wide).min)).exp_()
        weights = exps.div_(exps.sum(-1, keepdim=True).clamp_min_(torch.finfo(wide).tiny)).to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
        part = grad * wide
        return (part - wide * part.sum(-1, keepdim=True)).to(weights.dtype), None
