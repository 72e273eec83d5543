"""Split vectors into heads (Vaswani et al. 2017, §3.2.2)."""

from torch import Tensor


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return the part of every head: head h has the elements h·E … h·E + E − 1 of each vector, E = D/H.

    Args:
        x: projected queries, keys or values, shape (B, N, D).
        heads: H, which divides D.

    Returns:
        The parts, shape (B, H, N, E).
    """
    B, N, D = x.shape
    return x.reshape(B, N, heads, D // heads).transpose(1, 2)
