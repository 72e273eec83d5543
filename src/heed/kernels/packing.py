"""Weights laid out for the CPU, for products during inference."""

from collections.abc import Callable
from functools import cache, cached_property, partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from heed import compat
from heed.functional.linear import LinearMap, prepared_linear
from heed.kernels.choice import is_plain
from heed.kernels.cpu import max_onednn_rows

Weights = tuple[Float[Tensor, "_ I"], ...]

MIN_ONEDNN_PRODUCTS = 2**17
"""Multiplications above which oneDNN is faster than MKL: a call of it costs more."""


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
            return prepared_linear(*maps)
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
        return found.keys() == self._fingerprints.keys() and all(
            torch.equal(values, self._fingerprints[place]) for place, values in found.items()
        )

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


def _fingerprints(weights: "Weights") -> dict[int, Float[Tensor, " O"]]:
    """Return, by the address of each weight, its product with a fixed random vector: one pass over its values."""
    with torch.inference_mode():
        return {
            weight.data_ptr(): torch.mv(weight, _random_vector(weight.shape[1], weight.dtype)) for weight in weights
        }


@cache
def _random_vector(length: int, dtype: torch.dtype) -> Float[Tensor, " I"]:
    return torch.randn(length, generator=torch.Generator().manual_seed(0)).to(dtype)
