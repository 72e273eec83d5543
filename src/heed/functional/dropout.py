"""Dropout (Srivastava et al. 2014)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def dropout(x: Float[Tensor, "*B"], p: float) -> Float[Tensor, "*B"]:
    """Set each element to zero with probability ``p`` and scale the others by 1 / (1 − p)."""
    return F.dropout(x, p)
