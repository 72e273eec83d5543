"""Weights of a trained model laid out for the CPU while the model is used for inference."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from heed import compat
from heed.kernels.cpu import max_onednn_rows

Weights = tuple[Float[Tensor, "_ I"], ...]

MIN_ONEDNN_PRODUCTS = 2**17
"""Multiplications above which oneDNN is faster than MKL: a call of it costs more."""


@contextmanager
def packed_weights() -> Iterator[None]:
    """Inside this context, ``kernels.linear`` multiplies by copies of fp32 weights laid out for the CPU.

    Packed copies are kept between contexts, as long as their weights exist. Each context compares them once with the
    weights, which may have changed in between; they must not change inside. Models are not touched: they train, move,
    and are copied and pickled as usual.
    """
    global _current
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        yield
        return
    before, _current = _current, {}
    try:
        yield
    finally:
        _current = before


_current: "dict[tuple[int, ...], tuple[Weights, PackedWeight | None]] | None" = None
"""By the ids of weights, these and their packed copies as verified in this context. None outside a context."""
_known: "WeakTensorKeyDictionary" = WeakTensorKeyDictionary()
"""By the first of the weights."""


def find_packed(*weights: Tensor) -> "PackedWeight | None":
    """Return packed copies of the concatenated weights, making them if needed; None where they cannot be used."""
    if _current is None:
        return None
    key = tuple(map(id, weights))
    if (found := _current.get(key)) is None:
        usable = all(map(_is_fp32_on_cpu, weights))
        found = _current[key] = weights, _pack(weights) if usable else None
    return found[1]


def _pack(weights: "Weights") -> "PackedWeight":
    """Return the known packed copies of the weights if they have not changed, else new ones."""
    known: PackedWeight | None = _known.get(weights[0])  # type: ignore[no-untyped-call]
    if known is None or not known.is_current(weights):
        known = _known[weights[0]] = PackedWeight(*(weight.detach() for weight in weights))
    return known


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
