"""Mistakes that the check explains."""

import torch
from torch import Tensor


def _angles(x: Tensor, start: int) -> Tensor:
    N, E = x.shape[2:]
    return torch.arange(start, start + N)[:, None] * 10_000 ** (-torch.arange(0, E, 2) / E)


def neighbours(x: Tensor, start: int) -> Tensor:
    """The pairs are the neighbours 2i and 2i + 1, as in the paper. Here they are i and i + E/2."""
    angles = _angles(x, start)
    a, b = x[..., 0::2], x[..., 1::2]
    rotated = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return torch.stack(rotated, -1).flatten(-2)


def backwards(x: Tensor, start: int) -> Tensor:
    """The rotation is backwards: the sign of the sines is wrong."""
    angles = _angles(x, start)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()), -1)


def start_ignored(x: Tensor, start: int) -> Tensor:
    """`start` is ignored. With cached keys, every new token would be at position 0."""
    angles = _angles(x, 0)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


def over_heads(x: Tensor, start: int) -> Tensor:
    """The angles are those of the head's number. Positions are axis 2, between heads and width."""
    swapped = x.transpose(1, 2)
    angles = _angles(swapped, start)
    a, b = swapped.chunk(2, -1)
    rotated = torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)
    return rotated.transpose(1, 2)
