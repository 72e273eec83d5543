"""Linear maps, also repeated over time steps."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heed import functional
from heed.functional.linear import LinearMap
from heed.kernels.choice import is_plain, matmul_dtype

Uses = list[tuple[Tensor, Tensor]]
"""From a backward pass: for every use of a weight, the gradient of its output and its input."""


def cast_for_matmul(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Cast ``x`` to autocast's dtype for matrix products once. Autocast would cast it for every product."""
    return functional.cast_for_matmul(x) if is_plain() else x.to(matmul_dtype(x))


def repeated_linear(weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None) -> LinearMap:
    """Compute :func:`heed.functional.repeated_linear`; the gradient of the weight is one product over all steps.

    That gradient is Σ_t g_tᵀ x_t. Autograd computes a small product and a sum of the size of W at every step.
    """
    if is_plain() or not torch.is_grad_enabled():
        return functional.repeated_linear(weight, bias)
    uses: Uses = []
    weight, bias = _Shared.apply(weight, bias, uses)  # type: ignore[no-untyped-call]
    return lambda x: _Use.apply(x, weight, bias, uses)  # type: ignore[no-untyped-call]


class _Shared(torch.autograd.Function):
    """The weight and bias in the dtype of products. Its backward runs after that of all uses and sums over them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: Uses) -> tuple[Tensor, Tensor | None]:
        dtype = matmul_dtype(weight)
        ctx.uses, ctx.dtype, ctx.has_bias = uses, weight.dtype, bias is not None
        ctx.set_materialize_grads(False)
        return weight.to(dtype, copy=True), None if bias is None else bias.to(dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, *_: None) -> tuple[Tensor | None, Tensor | None, None]:
        grads, inputs = (torch.cat([part.flatten(0, -2) for part in parts]) for parts in zip(*ctx.uses, strict=True))
        ctx.uses.clear()
        bias_grad = grads.sum(0, dtype=ctx.dtype) if ctx.has_bias else None
        return (grads.T @ inputs).to(ctx.dtype), bias_grad, None


class _Use(torch.autograd.Function):
    """One product. Its backward records what the gradient of the weight needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, uses: Uses) -> Tensor:
        ctx.dtype, ctx.uses = x.dtype, uses
        x = x.to(weight.dtype)
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        x, weight = ctx.saved_tensors
        ctx.uses.append((grad, x))
        return (grad @ weight).to(ctx.dtype), None, None, None
