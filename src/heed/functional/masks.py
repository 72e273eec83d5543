"""The one mask convention: True = may attend. A position with nothing to attend to receives zeros, never NaN."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def causal_mask(size: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """Position t may attend to positions 0..t."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def masked_softmax(scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"]) -> Float[Tensor, "*B T S"]:
    """Softmax over the last axis among the positions that may be attended to; a row of all False gives zeros."""
    hidden = ~mask
    if scores.device.type == "cpu":
        weights: Tensor = _MaskedSoftmax.apply(scores, hidden)  # type: ignore[no-untyped-call]
        return weights
    # The most negative finite number, since a row of -inf alone would give NaN.
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(hidden, 0.0)


class _MaskedSoftmax(torch.autograd.Function):
    """For a CPU, where torch's softmax goes row by row: over 25 keys in bf16 it takes four times as long as this does.

    Computed in fp32 at least, whatever comes in and goes out. It can be differentiated once.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, hidden: Tensor) -> Tensor:
        wide = torch.promote_types(scores.dtype, torch.float32)
        shown = scores.to(wide, copy=True).masked_fill_(hidden, -torch.inf)
        # Clamped, so that a row of -inf alone comes to 0 / tiny.
        exps = shown.sub_(shown.amax(-1, keepdim=True).clamp_min_(torch.finfo(wide).min)).exp_()
        weights = exps.div_(exps.sum(-1, keepdim=True).clamp_min_(torch.finfo(wide).tiny)).to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
        part = outer * wide
        return (part - wide * part.sum(-1, keepdim=True)).to(weights.dtype), None
