"""Linear layers of a model that has learned, made ready for the products of the CPU it is on."""

from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heed.cpu import leaves_mkl_behind
from heed.layers.embedding import TokenEmbedding

SMALL = 2**17
"""Multiplications up to which MKL makes a product sooner: to call oneDNN costs more than they do."""


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
    """x Wᵀ + b, with W as it lies best, laid out once: for oneDNN, and for MKL the small products."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias

    def product(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        fitting = x.dtype == self.weight.dtype == torch.float32 and x.device.type == "cpu"
        # What oneDNN computes has no gradient.
        if torch.is_grad_enabled() or not fitting:
            return F.linear(x, self.weight, self.bias)
        if x.numel() * len(self.weight) <= SMALL:
            return F.linear(x, self._columns, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._blocks, self.bias, "none", [], "")
        return product

    @cached_property
    def _columns(self) -> Float[Tensor, "E D"]:
        """W, column behind column: from cold memory MKL takes two thirds of the time so."""
        return self.weight.detach().t().contiguous().t()

    @cached_property
    def _blocks(self) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(self.weight.detach())
