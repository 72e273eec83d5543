"""Mistakes that the check explains."""

import torch
from torch import Tensor


def unscaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The scores are not divided by √E. Their variance grows with E, and the softmax saturates."""
    weights = (query @ key.transpose(1, 2)).masked_fill(~mask, -torch.inf).softmax(-1)
    return weights @ value, weights


def divided_by_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The scores are divided by E instead of √E. Their variance is 1/E instead of 1: the weights are too even."""
    scores = query @ key.transpose(1, 2) / query.shape[-1]
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights @ value, weights


def over_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The softmax runs over the queries. It must run over the keys, which are the last axis of the scores."""
    scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(1)
    return weights @ value, weights


def unmasked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The mask is not used: queries attend to padding and to the future."""
    weights = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
    return weights @ value, weights
