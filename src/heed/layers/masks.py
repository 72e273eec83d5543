"""The one mask convention: True = may attend. A position with nothing to attend to receives zeros, never NaN."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def causal_mask(size: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """Position t may attend to positions 0..t."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def masked_softmax(scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"]) -> Float[Tensor, "*B T S"]:
    """Softmax over the last axis among the positions that may be attended to; a row of all False gives zeros."""
    hidden = ~mask
    # The most negative finite number, since a row of -inf alone would give NaN.
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(hidden, 0.0)
