"""Selection of the most probable tokens."""

from jaxtyping import Float, Int
from torch import Tensor


def stable_topk(x: Float[Tensor, "R N"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Return the ``k`` largest values of each row in descending order, and their indices (C = min(k, N)).

    Among equal values the lower index comes first. ``Tensor.topk`` leaves that open, so that a translation could depend
    on the kernel and, through it, on the batch size.
    """
    values, indices = x.sort(dim=1, descending=True, stable=True)
    return values[:, :k], indices[:, :k]
