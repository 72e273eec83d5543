"""Mistakes that the check explains."""

import torch
from torch import Tensor


def _angles(length: int, width: int, start: int = 0) -> Tensor:
    return torch.arange(start, start + length)[:, None] * 10_000 ** (-torch.arange(0, width, 2) / width)


def halves(length: int, width: int) -> Tensor:
    """All sines come before all cosines. In the paper they alternate: even columns are sines, odd ones cosines."""
    angles = _angles(length, width)
    return torch.cat((angles.sin(), angles.cos()), -1)


def from_one(length: int, width: int) -> Tensor:
    """The first position is 1. It must be 0."""
    angles = _angles(length, width, start=1)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def swapped(length: int, width: int) -> Tensor:
    """Sine and cosine are swapped: column 0 is a sine."""
    angles = _angles(length, width)
    return torch.stack((angles.cos(), angles.sin()), -1).flatten(1)


def frequency_of_column(length: int, width: int) -> Tensor:
    """The exponent is the column / D. Both columns of a pair have the frequency of the pair, with the exponent 2i/D."""
    angles = torch.arange(length)[:, None] * 10_000 ** (-torch.arange(width) / width)
    return torch.where(torch.arange(width) % 2 == 0, angles.sin(), angles.cos())


def frequency_doubled(length: int, width: int) -> Tensor:
    """The exponent is twice the column / D. For the columns 2i and 2i + 1 it is 2i/D: i counts pairs, not columns."""
    angles = torch.arange(length)[:, None] * 10_000 ** (-2 * torch.arange(width) / width)
    return torch.where(torch.arange(width) % 2 == 0, angles.sin(), angles.cos())
