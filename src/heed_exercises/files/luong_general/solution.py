"""General score (Luong et al. 2015, §3.1)."""

import torch
from torch import Tensor


def luong_general(query: Tensor, states: Tensor, W: Tensor) -> Tensor:
    """Return the score of every decoder state with every source state: score(hₜ, hₛ) = hₜᵀ W hₛ.

    Args:
        query: the decoder states hₜ, shape (B, T, D).
        states: the source states hₛ, shape (B, S, D).
        W: the learned matrix, shape (D, D).

    Returns:
        The scores, shape (B, T, S).
    """
    return torch.einsum("btq,qd,bsd->bts", query, W, states)
