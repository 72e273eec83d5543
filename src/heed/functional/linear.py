"""Linear maps and dropout."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

LinearMap = Callable[[Float[Tensor, "*B I"]], Float[Tensor, "*B O"]]
Prepare = Callable[..., LinearMap]
"""A function with the signature of `prepared_linear`."""


def prepared_linear(*maps: tuple[Float[Tensor, "_ I"], Float[Tensor, " _"] | None]) -> LinearMap:
    """Return the function x ↦ x Wᵀ + b, where W and b are concatenated from the pairs (W, b).

    For use without gradient, as long as the weights do not change.
    """
    if len(maps) == 1:
        ((weight, bias),) = maps
        return partial(F.linear, weight=weight, bias=bias)  # no copy
    biases = [bias for _, bias in maps if bias is not None]
    return partial(
        F.linear, weight=torch.cat([weight for weight, _ in maps]), bias=torch.cat(biases) if biases else None
    )


def repeated_linear(weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None) -> LinearMap:
    """Return the function x ↦ x Wᵀ + b, for use at every time step of one forward pass."""
    return lambda x: F.linear(x, weight, bias)


def cast_for_matmul(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Return ``x`` in the dtype of matrix products. Here unchanged: under autocast each product casts it."""
    return x


def dropout(x: Float[Tensor, "*B"], p: float) -> Float[Tensor, "*B"]:
    """Set each element to zero with probability ``p`` and scale the others by 1 / (1 − p) (Srivastava et al. 2014)."""
    return F.dropout(x, p)
