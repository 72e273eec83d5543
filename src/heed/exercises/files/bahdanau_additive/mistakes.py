"""Mistakes that the check explains."""

import torch
from torch import Tensor


def without_tanh(query: Tensor, states: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    """The tanh is missing. Then the query adds the same number to all its scores, and softmax ignores it."""
    return (query @ W.T @ v)[:, :, None] + (states @ U.T @ v)[:, None]


def tanh_of_each(query: Tensor, states: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    """The tanh is applied to W sₜ and to U hₛ separately. Apply it to their sum, or softmax ignores the query."""
    return (torch.tanh(query @ W.T) @ v)[:, :, None] + (torch.tanh(states @ U.T) @ v)[:, None]
