"""Dropout (Srivastava et al. 2014): a new mask at every position, or for sequences one for the whole sentence."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def dropout(x: Float[Tensor, "*B"], p: float) -> Float[Tensor, "*B"]:
    """With probability ``p`` a number is dropped, the others grow by 1 / (1 − p).

    On a CPU ``p`` counts in 65,536ths, and so does the growth.
    """
    if x.device.type != "cpu" or not 0 < p < 1:
        return F.dropout(x, p)
    dropped: Tensor = _Dropout.apply(x, min(round(p * 2**16), 2**16 - 1))  # type: ignore[no-untyped-call]
    return dropped


class _Dropout(torch.autograd.Function):
    """For a CPU: torch draws a float's worth of randomness for each number there; here four share a draw of 64 bits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, drops: int) -> Tensor:
        drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        drawn = drawn.view(torch.int16)[: x.numel()].view(x.shape)
        # Ones and zeros as x has them: to multiply by booleans is several times as slow.
        kept = torch.ge(drawn, drops - 2**15, out=torch.empty_like(drawn, dtype=x.dtype))
        ctx.save_for_backward(kept)
        ctx.growth = 2**16 / (2**16 - drops)
        return _product(x, kept, ctx.growth)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _product(outer, kept, ctx.growth), None


def _product(x: Tensor, kept: Tensor, growth: float) -> Tensor:
    return torch.addcmul(x.new_zeros(()), x, kept, value=growth)  # one pass for two


class Dropout(nn.Module):
    """:func:`dropout` while training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        return dropout(x, self.p) if self.training else x


class SequenceDropout(nn.Module):
    """:func:`dropout` while training, for sequences.

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
        return dropout(torch.ones(rows, width, device=device), self.p)

    def forward(self, x: Float[Tensor, "B T D"], mask: Float[Tensor, "B D"] | None) -> Float[Tensor, "B T D"]:
        """``x`` dropped by the sentences' masks, or (None) at every position anew."""
        if mask is not None:
            return x * mask[:, None].to(x.dtype)
        return dropout(x, self.p) if self.training else x
