"""Additive score (Bahdanau et al. 2015, A.1.2)."""

import torch
from torch import Tensor


def bahdanau_additive(query: Tensor, states: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    """Return the score of every decoder state with every source state: score(sₜ, hₛ) = vᵀ tanh(W sₜ + U hₛ).

    Args:
        query: the decoder states sₜ, shape (B, T, Q).
        states: the source states hₛ, shape (B, S, D).
        W: shape (A, Q).
        U: shape (A, D).
        v: shape (A,).

    Returns:
        The scores, shape (B, T, S).
    """
    queries = (query @ W.T)[:, :, None]  # (B, T, 1, A)
    keys = (states @ U.T)[:, None]  # (B, 1, S, A)
    return torch.tanh(queries + keys) @ v
