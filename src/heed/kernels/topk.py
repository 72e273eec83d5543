"""Selection of the most probable tokens, without sorting whole rows."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import functional
from heed.kernels.choice import is_plain

TOPK_BLOCK = 64  # values per block: a block is skipped if its maximum is too small
MAX_SORTED = 1024  # values in all rows together up to which sorting the rows is faster: it is one operation


def stable_topk(x: Float[Tensor, "R N"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Compute :func:`heed.functional.stable_topk`. The k largest values lie in the k blocks with the largest maxima.

    That holds with equal values, too, if the first of equal blocks are taken: each of them has a value that comes
    first. Nothing here depends on the values, so an accelerator is not waited for.
    """
    length = x.shape[1]
    whole = length - length % TOPK_BLOCK
    if is_plain():
        return functional.stable_topk(x, k)
    if length < 4 * k * TOPK_BLOCK:
        return _topk(x, k)
    _, blocks = _topk(x[:, :whole].view(len(x), -1, TOPK_BLOCK).amax(2), k)
    # In ascending order, so that equal values stay in the order of their indices.
    blocks = blocks.sort(1).values
    candidates = (blocks[..., None] * TOPK_BLOCK + torch.arange(TOPK_BLOCK, device=x.device)).flatten(1)
    if whole < length:
        rest = torch.arange(whole, length, device=x.device).expand(len(x), -1)
        candidates = torch.cat([candidates, rest], 1)
    values, places = _topk(x.gather(1, candidates), k)
    return values, candidates.gather(1, places)


def _topk(x: Float[Tensor, "R N"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Compute :func:`heed.functional.stable_topk`, in fp32 without sorting the rows."""
    if k == 1:
        values, indices = x.max(1, keepdim=True)  # the first of equal values
        return values, indices
    if x.dtype != torch.float32 or x.numel() <= MAX_SORTED:
        return functional.stable_topk(x, k)
    # Integers in the order of the values, then of the indices from the last to the first, so that no two are equal.
    # A float's bits are in its order; those of a negative one in the opposite order.
    bits = (x + 0.0).view(torch.int32)  # -0.0 + 0.0 = 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    last_first = torch.arange(x.shape[1] - 1, -1, -1, device=x.device)
    indices = (ordered.long().bitwise_left_shift(32) | last_first).topk(min(k, x.shape[1])).indices
    return x.gather(1, indices), indices
