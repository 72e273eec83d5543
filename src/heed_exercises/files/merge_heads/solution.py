"""Join the contexts of the heads (Vaswani et al. 2017, §3.2.2)."""

from torch import Tensor


def merge_heads(x: Tensor) -> Tensor:
    """Return Concat(head_1, …, head_H): the inverse of split_heads.

    Args:
        x: the contexts of the heads, shape (B, H, N, E).

    Returns:
        One vector per position, shape (B, N, H·E), with head 1 first.
    """
    return x.transpose(1, 2).flatten(2)
