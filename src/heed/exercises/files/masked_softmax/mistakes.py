"""Mistakes that the check explains."""

import torch
from torch import Tensor


def masked_afterwards(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax runs over all keys, and the mask comes afterwards: the weights no longer sum to 1."""
    return scores.softmax(-1) * mask


def inverted(scores: Tensor, mask: Tensor) -> Tensor:
    """The mask is inverted: True means that the query may attend to the key."""
    return scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(mask, 0.0)


def over_queries(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax runs over the queries (axis 1). It must run over the keys, which are the last axis."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(1).masked_fill(~mask, 0.0)


def not_a_number(scores: Tensor, mask: Tensor) -> Tensor:
    """Where all scores of a query are −∞, the softmax is 0/0 = NaN. Its weights must be 0."""
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def uniform(scores: Tensor, mask: Tensor) -> Tensor:
    """Where all scores of a query are equally small, the softmax is uniform. Its weights must be 0."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)


def overflow(scores: Tensor, mask: Tensor) -> Tensor:
    """exp(300) is infinite in float32. Subtract the largest score first, or let `softmax` do it."""
    exponentials = scores.exp() * mask
    return exponentials / exponentials.sum(-1, keepdim=True)
