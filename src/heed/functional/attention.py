"""Attention masks, and scaled dot-product attention (Vaswani et al. 2017, §3.2.1).

There is one convention for masks everywhere: True = may attend.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

Mask = Bool[Tensor, "*#B #T S"] | Literal["causal"] | None
"""The keys that each of T queries may attend to.

- A tensor: the keys at which it is True.
- "causal": the query's own position and all earlier ones. The queries are the last T of the S positions.
- None: all keys.

For "causal" and None, a kernel reads no mask tensor and can skip the hidden keys.
"""


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "T S"]:
    """Return the mask in which every position may attend to itself and those before it.

    The queries are the last ``queries`` of the ``keys`` positions.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def mask_tensor(
    mask: Mask, query: Float[Tensor, "*B T E"], key: Float[Tensor, "*B S E"]
) -> Bool[Tensor, "*#B #T S"] | None:
    """Return a mask as a tensor; None if every query may attend to all keys."""
    if not isinstance(mask, str):
        return mask
    queries, keys = query.shape[-2], key.shape[-2]
    return None if queries == 1 else causal_mask(queries, keys, query.device)


def masked_softmax(scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"] | None) -> Float[Tensor, "*B T S"]:
    """Return the softmax over the positions of the last axis where ``mask`` is True (None: all), and 0 elsewhere.

    A row without such a position gives zeros, never NaN.
    """
    if mask is None:
        return scores.softmax(-1)
    # The smallest finite number instead of -inf: softmax of a row of -inf is NaN.
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


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
    """Return the context softmax(QKᵀ/√E + bias)V and the attention weights (Vaswani et al. 2017, eq. 1).

    Args:
        mask: the keys that each query may attend to. A query without such a key gets zeros.
        bias: added to the scores, such as a relative position bias.
        scaled: divide the scores by √E. Without it their variance grows with E.
        dropout: probability of dropping a weight before it is applied to the values (0 when not training).
        need_weights: return the weights, as they are before dropout. Otherwise None is returned in their place.
    """
    scores = attention_scores(query, key, bias, scaled=scaled)
    weights = masked_softmax(scores, mask_tensor(mask, query, key))
    return F.dropout(weights, dropout) @ value, weights if need_weights else None


def attention_scores(
    query: Float[Tensor, "*B T E"], key: Float[Tensor, "*B S E"], bias: Float[Tensor, "*#B T S"] | None, *, scaled: bool
) -> Float[Tensor, "*B T S"]:
    """Return QKᵀ/√E + bias; without scaling QKᵀ + bias."""
    scores = (query * query.shape[-1] ** -0.5 if scaled else query) @ key.transpose(-2, -1)
    return scores if bias is None else scores + bias
