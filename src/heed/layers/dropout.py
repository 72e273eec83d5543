"""Dropout of elements, of sequences and of layers."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heed import kernels


class Dropout(nn.Module):
    """:func:`heed.functional.dropout` while training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        return kernels.dropout(x, self.p) if self.training else x


class SequenceDropout(Dropout):
    """Dropout of sequences while training.

    Args:
        variational: draw one mask per sentence and use it at every time step (Gal & Ghahramani 2016, eq. 7), so that
            it can be applied to a recurrent state repeatedly. Otherwise every position has its own mask.
    """

    def __init__(self, p: float, *, variational: bool) -> None:
        super().__init__(p)
        self.variational = variational

    def mask(self, rows: int, width: int, device: torch.device) -> Float[Tensor, "B D"] | None:
        """Draw a mask for each sentence, to multiply with; None unless training with variational dropout."""
        if not (self.variational and self.training and self.p):
            return None
        return kernels.dropout(torch.ones(rows, width, device=device), self.p)

    def forward(self, x: Float[Tensor, "B T D"], mask: Float[Tensor, "B D"] | None = None) -> Float[Tensor, "B T D"]:
        """Apply the sentences' masks to ``x``, or ordinary dropout if there are none."""
        return super().forward(x) if mask is None else x * mask[:, None].to(x.dtype)


class LayerDropout(nn.Module):
    """While training, each sentence skips a layer with probability ``p`` (LayerDrop: Fan et al. 2020).

    Each sentence draws for itself, and the layer is always computed. Therefore every weight has a gradient in every
    process.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "B N D"], output: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Choose between the input ``x`` of a layer and its ``output``."""
        if not (self.training and self.p):
            return output
        skipped = torch.rand(len(x), 1, 1, device=x.device) < self.p
        return torch.where(skipped, x, output)
