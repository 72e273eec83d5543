"""Selection of the most probable tokens, without sorting whole rows."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import functional
from heed.kernels.choice import is_plain

BLOCK = 64
"""Values per block: a block of which the maximum is too small is skipped."""
MIN_VALUES = 2**15
"""Values in all rows together from which that is faster on a CPU."""


def stable_topk(x: Float[Tensor, "R N"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Compute :func:`heed.functional.stable_topk`, sorting only rows that have equal values among the largest."""
    if is_plain():
        return functional.stable_topk(x, k)
    # The value after the k-th shows whether a tie crosses the edge.
    values, indices = _topk(x, min(k + 1, x.shape[1]))
    tied = (values[:, 1:] == values[:, :-1]).any(1)
    if tied.any():
        ordered = x[tied].sort(dim=1, descending=True, stable=True)
        values[tied], indices[tied] = (part[:, : values.shape[1]] for part in ordered)
    return values[:, :k], indices[:, :k]


def _topk(x: Float[Tensor, "R N"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Return ``x.topk(k, dim=1)``. The k largest values of a row lie in the k blocks with the largest maxima."""
    length = x.shape[1]
    whole = length - length % BLOCK
    if not x.is_cpu or length < 4 * k * BLOCK or x.numel() < MIN_VALUES:
        values, indices = x.topk(k, dim=1)
        return values, indices
    blocks = x[:, :whole].view(len(x), -1, BLOCK).amax(2).topk(k, dim=1).indices
    candidates = (blocks[..., None] * BLOCK + torch.arange(BLOCK)).flatten(1)
    candidates = torch.cat([candidates, torch.arange(whole, length).expand(len(x), -1)], dim=1)
    values, places = x.gather(1, candidates).topk(k, dim=1)
    return values, candidates.gather(1, places)


def log_sum_exp(logits: Float[Tensor, "R V"], argmax: Int[Tensor, "R 1"]) -> Float[Tensor, "R 1"]:
    """Compute :func:`heed.functional.log_sum_exp` from the softmax: one pass over the rows instead of two."""
    if is_plain():
        return functional.log_sum_exp(logits, argmax)
    return logits.gather(1, argmax) - logits.softmax(1).gather(1, argmax).log()
