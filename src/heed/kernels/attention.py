"""Attention by torch's fused kernels where they are faster."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heed.functional.attention import attention_scores
from heed.functional.masks import Mask, mask_tensor
from heed.kernels.choice import is_plain, on_cpu
from heed.kernels.dropout import dropout as drop
from heed.kernels.masks import masked_softmax

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
