"""Linear maps, repeated over time steps or with weights packed for inference on a CPU."""

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from heed import compat, functional
from heed.functional.linear import LinearMap
from heed.kernels.choice import is_plain, matmul_dtype, max_onednn_rows

Uses = list[tuple[Tensor, Tensor]]
"""From a backward pass: for every use of a weight, the gradient of its output and its input."""

Weights = tuple[Float[Tensor, "_ I"], ...]

MIN_ONEDNN_PRODUCTS = 2**17
"""Multiplications above which oneDNN is faster than MKL: a call of it costs more."""


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


class WeightPacker:
    """Packs weights, and keeps their packed copies as long as the weights exist. The weights are not changed."""

    def __init__(self) -> None:
        self._known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        """Packed copies, by the first of the weights."""

    def prepared_linear(self, *maps: tuple[Float[Tensor, "_ I"], Float[Tensor, " _"] | None]) -> LinearMap:
        """Compute :func:`heed.functional.prepared_linear` with packed weights, where they can be used.

        Known copies are compared with the weights, which may have changed since the last call.
        """
        weights = tuple(weight for weight, _ in maps)
        if is_plain() or not (torch.backends.mkl.is_available() and all(map(_is_fp32_on_cpu, weights))):  # type: ignore[no-untyped-call]
            return functional.prepared_linear(*maps)
        packed: PackedWeight | None = self._known.get(weights[0])  # type: ignore[no-untyped-call]
        if packed is None or not packed.is_current(weights):
            packed = self._known[weights[0]] = PackedWeight(*(weight.detach() for weight in weights))
        biases = [bias for _, bias in maps if bias is not None]
        return partial(packed.product, bias=torch.cat(biases) if biases else None)

    def __reduce__(self) -> tuple[type["WeightPacker"], tuple[()]]:
        """Start without packed copies where this is copied or unpickled."""
        return WeightPacker, ()


class PackedWeight:
    """Copies of a weight W laid out for MKL and, where it is faster, for oneDNN.

    MKL reads W faster in column-major order: for 5 to 40 rows, a product takes 10 to 40 % less time.

    Args:
        weights: W, or several weights which are concatenated to W, for one product instead of several.
    """

    def __init__(self, *weights: Float[Tensor, "_ I"]) -> None:
        self.weight = torch.cat(weights).t().contiguous().t()
        out_features, in_features = self.weight.shape
        max_rows = max_onednn_rows() if compat.has_onednn_linear() else 0
        # A single row is a product of a matrix and a vector, which MKL computes faster.
        min_size = max(in_features, MIN_ONEDNN_PRODUCTS // max(1, out_features)) + 1
        self._onednn_sizes = range(min_size, max_rows * in_features + 1)
        self._fingerprints = _fingerprints(weights)

    def is_current(self, weights: "Weights") -> bool:
        """Return whether these are the weights that were packed, with the same values.

        ``Tensor._version`` misses some changes (``.data.copy_``, NumPy views, shared memory), so values are compared.
        """
        found = _fingerprints(weights)
        return len(found) == len(self._fingerprints) and all(map(torch.equal, found, self._fingerprints))

    def product(self, x: Float[Tensor, "*B I"], bias: Float[Tensor, " O"] | None) -> Float[Tensor, "*B O"]:
        """Return x Wᵀ + b, without gradient."""
        if x.numel() in self._onednn_sizes and _is_fp32_on_cpu(x):
            return self._onednn_linear(x, bias)
        return F.linear(x, self.weight, bias)

    @cached_property
    def _onednn_linear(self) -> Callable[[Tensor, Tensor | None], Tensor]:
        return compat.onednn_linear(self.weight.contiguous())


def _is_fp32_on_cpu(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_cpu


def _fingerprints(weights: "Weights") -> list[Float[Tensor, " O"]]:
    """Return the product of each weight with a fixed random vector: one pass over its values."""
    with torch.inference_mode():
        return [torch.mv(weight, _random_vector(weight.shape[1], weight.dtype)) for weight in weights]


@cache
def _random_vector(length: int, dtype: torch.dtype) -> Float[Tensor, " I"]:
    return torch.randn(length, generator=torch.Generator().manual_seed(0)).to(dtype)
