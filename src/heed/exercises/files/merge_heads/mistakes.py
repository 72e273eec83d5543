"""Mistakes that the check explains."""

from torch import Tensor


def reshaped_only(x: Tensor) -> Tensor:
    """A reshape alone mixes positions: the vector of one position has numbers of others. Swap H and N first."""
    return x.reshape(x.shape[0], x.shape[2], -1)


def interleaved(x: Tensor) -> Tensor:
    """The elements of the heads are interleaved. Each head's E elements must be neighbours."""
    return x.permute(0, 2, 3, 1).flatten(2)
