"""Dropout of elements and of layers."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heed import kernels


class Dropout(nn.Module):
    """Dropout of elements while training (Srivastava et al. 2014)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        return kernels.dropout(x, self.p) if self.training and self.p else x


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
