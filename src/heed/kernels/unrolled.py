"""One linear map at many time steps, whose gradient is formed once."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heed.functional.precision import products_dtype

Uses = list[tuple[Tensor, Tensor]]
"""Of a backward pass: the gradient of every output, and the input it came from."""


class Unrolled:
    """x Wᵀ + b for one x after the other, as recurrence has them.

    The gradient of W is Σ_t g_tᵀ x_t. Left to autograd it is a product of few rows and a sum of the size of W at every
    step; here it is one product of all steps' rows, and in bf16 rounded once.
    """

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None) -> None:
        self.uses: Uses = []
        self.learning = torch.is_grad_enabled()
        self.weight, self.bias = weight, bias
        if self.learning:
            self.weight, self.bias = _Collect.apply(weight, bias, self.uses)  # type: ignore[no-untyped-call]

    def __call__(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if not self.learning:
            return F.linear(x, self.weight, self.bias)
        out: Tensor = _Use.apply(x, self.weight, self.bias, self.uses)  # type: ignore[no-untyped-call]
        return out


class _Collect(torch.autograd.Function):
    """The weights as the products take them; backward, which comes when all uses have been through theirs, the sum."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: Uses) -> tuple[Tensor, Tensor | None]:
        factors = products_dtype(weight)
        ctx.uses, ctx.dtype, ctx.biased = uses, weight.dtype, bias is not None
        ctx.set_materialize_grads(False)
        return weight.to(factors, copy=True), None if bias is None else bias.to(factors, copy=True)

    @staticmethod
    def backward(ctx: Any, *_: None) -> tuple[Tensor | None, Tensor | None, None]:
        outer, inputs = (torch.cat([part.flatten(0, -2) for part in parts]) for parts in zip(*ctx.uses, strict=True))
        ctx.uses.clear()
        bias = outer.sum(0, dtype=ctx.dtype) if ctx.biased else None
        return (outer.T @ inputs).to(ctx.dtype), bias, None


class _Use(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, uses: Uses) -> Tensor:
        ctx.dtype, ctx.uses = x.dtype, uses
        x = x.to(weight.dtype)
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None]:
        x, weight = ctx.saved_tensors
        ctx.uses.append((outer, x))
        return (outer @ weight).to(ctx.dtype), None, None, None
