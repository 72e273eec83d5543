"""Linear layers of a model that has learned, made ready for the products of the CPU it is on."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heed.cpu import leaves_mkl_behind
from heed.layers.embedding import TokenEmbedding

SMALL = 2**17
"""Weights of which MKL makes a product with one row sooner: there, to call oneDNN costs more than to multiply."""


def pack(model: nn.Module) -> None:
    """Where MKL is slow, have a model's linear layers multiply by oneDNN, unless something is to be learned from it.

    Their weights must not change after the first product. The model's parameters stay as they are.
    """
    if not (leaves_mkl_behind() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return
    for module in model.modules():
        # Attributes of these modules alone, in front of their class's methods.
        if isinstance(module, nn.Linear):
            vars(module)["forward"] = Packed(module.weight, module.bias).product
        elif isinstance(module, TokenEmbedding):
            vars(module)["logits"] = Packed(module.weight, None).product


class Packed:
    """x Wᵀ + b by oneDNN, with W as it lies best for that, laid out once."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias
        self._laid_out: Tensor | None = None

    def product(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        fitting = x.dtype == self.weight.dtype == torch.float32 and x.device.type == "cpu"
        small = x.numel() == x.shape[-1] and self.weight.numel() <= SMALL
        # What oneDNN computes has no gradient.
        if torch.is_grad_enabled() or not fitting or small:
            return F.linear(x, self.weight, self.bias)
        if self._laid_out is None:
            self._laid_out = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach())
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._laid_out, self.bias, "none", [], "")
        return product
