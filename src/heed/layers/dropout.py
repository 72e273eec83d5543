"""Dropout for sequences: a new mask at every position, or one for the whole sentence."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class SequenceDropout(nn.Module):
    """With probability ``p`` a number is dropped while training, the others grow by 1 / (1 − p).

    Args:
        variational: one mask per sentence, the same at every time step, so that it can stand on a recurrent state,
            too, without wearing it away step by step (Gal & Ghahramani 2016, eq. 7). Else every position has its own.
    """

    def __init__(self, p: float, *, variational: bool) -> None:
        super().__init__()
        self.p = p
        self.variational = variational

    def mask(self, rows: int, width: int, device: torch.device) -> Float[Tensor, "B D"] | None:
        """What a sentence each is multiplied with, freshly drawn; None where sentences have no mask of their own."""
        if not (self.variational and self.training and self.p):
            return None
        return F.dropout(torch.ones(rows, width, device=device), self.p)

    def forward(self, x: Float[Tensor, "B T D"], mask: Float[Tensor, "B D"] | None) -> Float[Tensor, "B T D"]:
        """``x`` dropped by the sentences' masks, or (None) at every position anew."""
        return F.dropout(x, self.p, self.training) if mask is None else x * mask[:, None].to(x.dtype)
