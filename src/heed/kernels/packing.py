"""Linear layers of a trained model, laid out for the CPU while the model is used."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heed.kernels.cpu import has_slow_mkl
from heed.layers.embedding import TokenEmbedding

SMALL = 2**17
"""Multiplications up to which MKL makes a product sooner: to call oneDNN costs more than they do."""


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Inside this context, where MKL is slow, a model's linear layers multiply by oneDNN.

    The layouts are kept from one context to the next. Each context compares them with the weights as they are now, so
    that it does not matter how weights were changed in between; they must not change inside. Outside of it the model
    is untouched: it trains, moves, and is copied or pickled as ever.
    """
    if not (has_slow_mkl() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        yield
        return
    changed = []
    try:
        for module in model.modules():
            name = "forward" if isinstance(module, nn.Linear) else "logits"
            if isinstance(module, (nn.Linear, TokenEmbedding)) and _suits(module.weight):
                # Attributes of these modules alone, in front of their class's methods.
                vars(module)[name] = _layout(module).product
                changed.append((module, name))
        yield
    finally:
        for module, name in changed:
            vars(module).pop(name, None)


_LAYOUTS: "WeakKeyDictionary[nn.Module, Packed]" = WeakKeyDictionary()


def _layout(module: nn.Linear | TokenEmbedding) -> "Packed":
    """The module's layout: the known one, if the weights are those it was made from."""
    bias = module.bias if isinstance(module, nn.Linear) else None
    known = _LAYOUTS.get(module)
    if known is None or not known.fits(module.weight, bias):
        known = _LAYOUTS[module] = Packed(module.weight, bias)
    return known


class Packed:
    """x Wᵀ + b, with W as it lies best, laid out once: for oneDNN, and for MKL the small products."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias
        self._fingerprint = _fingerprint(weight)

    def fits(self, weight: Tensor, bias: Tensor | None) -> bool:
        """Whether this is the layout of these parameters with the values they have now.

        Tensors know of some changes of their values (``_version``) and not of others (``.data.copy_``, NumPy views,
        shared memory), so the values themselves are looked at.
        """
        return weight is self.weight and bias is self.bias and torch.equal(_fingerprint(weight), self._fingerprint)

    def product(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        # What oneDNN computes has no gradient.
        if torch.is_grad_enabled() or not (_suits(x) and _suits(self.weight)):
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


def _suits(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.device.type == "cpu"


def _fingerprint(weight: Float[Tensor, "E D"]) -> Float[Tensor, " E"]:
    """The product with a fixed random vector: as long as reading the weights once, and another one for other values."""
    with torch.inference_mode():
        return torch.mv(weight, _probe(weight.shape[1], weight.dtype))


@cache
def _probe(length: int, dtype: torch.dtype) -> Float[Tensor, " D"]:
    return torch.randn(length, generator=torch.Generator().manual_seed(0)).to(dtype)
