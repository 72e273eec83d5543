"""Sinusoidal positions (Vaswani et al. 2017, §3.5)."""

import torch
from torch import Tensor


def sinusoidal_positions(length: int, width: int) -> Tensor:
    """Return the position vectors: PE(n, 2i) = sin(n / 10000^(2i/D)), PE(n, 2i + 1) = cos(n / 10000^(2i/D)).

    Args:
        length: N; the positions n are 0 … N − 1.
        width: D, an even number.

    Returns:
        The vectors, shape (N, D).
    """
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length), frequencies)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
