"""Attention: torch's fused kernels where they are faster, otherwise a masked softmax for CPUs."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from heed import functional
from heed.functional.attention import Mask, attention_scores, mask_tensor
from heed.kernels.choice import is_plain, on_cpu
from heed.kernels.dropout import dropout as drop

MAX_UNFUSED_KEYS = 256  # on a CPU in bf16, the unfused computation is faster up to this many keys


def attend(
    query: Float[Tensor, "*B T E"],
    key: Float[Tensor, "*B S E"],
    value: Float[Tensor, "*B S V"],
    mask: Mask,
    *,
    bias: Float[Tensor, "*#B T S"] | None = None,
    scaled: bool = True,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> tuple[Float[Tensor, "*B T V"], Float[Tensor, "*B T S"] | None]:
    """Compute :func:`heed.functional.attend`. The fused kernels never materialise the weights."""
    is_faster_unfused = on_cpu(query) and query.dtype == torch.bfloat16 and key.shape[-2] <= MAX_UNFUSED_KEYS
    if is_plain() or need_weights or is_faster_unfused:
        if is_faster_unfused and not need_weights:
            # Heads that were split off a projection are strided, and the product would copy the keys transposed.
            query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        scores = attention_scores(query, key, bias, scaled=scaled)
        weights = masked_softmax(scores, mask_tensor(mask, query, key))
        return drop(weights, dropout) @ value, weights if need_weights else None
    scale = None if scaled else 1.0
    if isinstance(mask, str) and bias is None and query.shape[-2] == key.shape[-2]:
        # torch aligns a causal mask with the first key, heed with the last.
        return F.scaled_dot_product_attention(query, key, value, None, dropout, is_causal=True, scale=scale), None
    visible = mask_tensor(mask, query, key)
    if bias is not None:  # torch adds a mask of numbers to the scores
        bias = bias.to(query.dtype)
        visible = bias if visible is None else torch.where(visible, bias, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, visible, dropout, scale=scale), None


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
