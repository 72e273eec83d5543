"""Scaled dot-product attention (Vaswani et al. 2017, eq. 1)."""

import torch
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the contexts and the attention weights: Attention(Q, K, V) = softmax(QKᵀ/√E) V.

    Args:
        query: Q, shape (B, T, E).
        key: K, shape (B, S, E).
        value: V, shape (B, S, F).
        mask: True where a query may attend, shape (B, T, S). Every query has at least one key.

    Returns:
        The contexts, shape (B, T, F), and the weights, shape (B, T, S). Hidden keys have the weight 0.
    """
    scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights @ value, weights
