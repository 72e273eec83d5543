"""Softmax with a mask (Vaswani et al. 2017, §3.2.3)."""

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the keys that may be attended to, and 0 for the others.

    aₜₛ = exp(eₜₛ) / Σ exp(eₜₛ'), where s' runs over the keys whose mask is True. A query without such a key has only
    zeros. Scores may be as large as 1000: the result is never NaN.

    Args:
        scores: eₜₛ, shape (B, T, S).
        mask: True where a query may attend, shape (B, T, S).

    Returns:
        The weights, shape (B, T, S). The sum over the last axis is 1, or 0 for a query without a key.
    """
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1).masked_fill(~mask, 0.0)
