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
from heed.kernels.cpu import has_slow_mkl

MIN_ONEDNN_PRODUCTS = 2**17
"""Multiplications above which oneDNN is faster than MKL: a call of it costs more."""


@contextmanager
def packed_weights() -> Iterator[None]:
    """Inside this context, on CPUs on which MKL is slow, ``kernels.linear`` multiplies fp32 weights by oneDNN.

    Packed copies are kept between contexts, as long as their weights exist. Each context compares them once with the
    weights, which may have changed in between; they must not change inside. Models are not touched: they train, move,
    and are copied and pickled as usual.
    """
    global _current
    if not (has_slow_mkl() and compat.has_onednn_linear()):
        yield
        return
    before, _current = _current, {}
    try:
        yield
    finally:
        _current = before


_current: "dict[int, tuple[Tensor, PackedWeight | None]] | None" = None
"""By the id of a weight, the weight and its packed copies as verified in this context. None outside a context."""
_known: "WeakTensorKeyDictionary" = WeakTensorKeyDictionary()


def find_packed(weight: Tensor) -> "PackedWeight | None":
    """Return the packed copies of a weight, making them if needed; None where they cannot be used."""
    if _current is None:
        return None
    if (found := _current.get(id(weight))) is None:
        found = _current[id(weight)] = weight, _pack(weight) if _is_fp32_on_cpu(weight) else None
    return found[1]


def _pack(weight: Tensor) -> "PackedWeight":
    """Return the known packed copies of a weight if it has not changed, else new ones."""
    known: PackedWeight | None = _known.get(weight)  # type: ignore[no-untyped-call]
    if known is None or not known.is_current(weight):
        known = _known[weight] = PackedWeight(weight.detach())
    return known


class PackedWeight:
    """Copies of a weight W laid out for oneDNN and for MKL, which is faster for small products."""

    def __init__(self, weight: Float[Tensor, "O I"]) -> None:
        self.weight = weight
        self._max_mkl_elements = MIN_ONEDNN_PRODUCTS // max(1, len(weight))
        self._fingerprint = _fingerprint(weight)

    def is_current(self, weight: Float[Tensor, "O I"]) -> bool:
        """Return whether the weight still has the values that were packed.

        ``Tensor._version`` misses some changes (``.data.copy_``, NumPy views, shared memory), so values are compared.
        """
        return weight.data_ptr() == self.weight.data_ptr() and torch.equal(_fingerprint(weight), self._fingerprint)

    def product(self, x: Float[Tensor, "*B I"], bias: Float[Tensor, " O"] | None) -> Float[Tensor, "*B O"]:
        """Return x Wᵀ + b, without gradient."""
        if not _is_fp32_on_cpu(x):
            return F.linear(x, self.weight, bias)
        if x.numel() <= self._max_mkl_elements:
            return F.linear(x, self._column_major, bias)
        return self._onednn_linear(x, bias)

    @cached_property
    def _column_major(self) -> Float[Tensor, "O I"]:
        """W in column-major order, which MKL reads faster from memory."""
        return self.weight.t().contiguous().t()

    @cached_property
    def _onednn_linear(self) -> Callable[[Tensor, Tensor | None], Tensor]:
        return compat.onednn_linear(self.weight)


def _is_fp32_on_cpu(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_cpu


def _fingerprint(weight: Float[Tensor, "O I"]) -> Float[Tensor, " O"]:
    """Return the product of a weight with a fixed random vector: one pass over its values."""
    with torch.inference_mode():
        return torch.mv(weight, _random_vector(weight.shape[1], weight.dtype))


@cache
def _random_vector(length: int, dtype: torch.dtype) -> Float[Tensor, " I"]:
    return torch.randn(length, generator=torch.Generator().manual_seed(0)).to(dtype)
