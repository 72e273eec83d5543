"""Attention masks. One convention everywhere: True = may attend."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "T S"]:
    """Return the mask in which every position may attend to itself and those before it.

    The queries are the last ``queries`` of the ``keys`` positions.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def masked_softmax(scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"] | None) -> Float[Tensor, "*B T S"]:
    """Return the softmax over the positions of the last axis where ``mask`` is True (None: all), and 0 elsewhere.

    A row without such a position gives zeros, never NaN.
    """
    if mask is None:
        return scores.softmax(-1)
    # The smallest finite number instead of -inf: softmax of a row of -inf is NaN.
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)
