"""Mistakes that the check explains."""

from torch import Tensor


def view_only(x: Tensor, heads: int) -> Tensor:
    """A view alone gives each head some of the tokens. Split the last axis first, then swap the axes N and H."""
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def interleaved(x: Tensor, heads: int) -> Tensor:
    """Head h has every H-th element. It must have E neighbouring elements."""
    return x.reshape(*x.shape[:2], -1, heads).permute(0, 3, 1, 2)
