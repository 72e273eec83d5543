"""Mistakes that the check explains."""

from torch import Tensor


def transposed(query: Tensor, states: Tensor, W: Tensor) -> Tensor:
    """W is transposed: this is hₛᵀ W hₜ, and the score is hₜᵀ W hₛ."""
    return query @ W.T @ states.transpose(1, 2)


def without_matrix(query: Tensor, states: Tensor, W: Tensor) -> Tensor:
    """W is missing: this is the dot score hₜᵀ hₛ."""
    return query @ states.transpose(1, 2)
