"""Rotary positions (Su et al. 2021, eq. 34)."""

import torch
from torch import Tensor


def rotary_positions(x: Tensor, start: int) -> Tensor:
    """Return queries or keys, rotated by their positions.

    The elements i and i + E/2 of the vector at position n are a pair (a, b), which becomes

        (a cos φ − b sin φ, a sin φ + b cos φ) with the angle φ = n · 10000^(−2i/E).

    So the product of a query and a key depends on their distance only. The paper pairs the neighbours 2i and 2i + 1;
    heed and GPT-NeoX pair i and i + E/2.

    Args:
        x: shape (B, H, N, E) with even E.
        start: the position of the first vector; the others follow it. It is above 0 when the earlier keys are cached.

    Returns:
        The rotated vectors, shape (B, H, N, E).
    """
    N, E = x.shape[2:]
    angles = torch.outer(torch.arange(start, start + N), 10_000 ** (-torch.arange(0, E, 2) / E))  # (N, E/2)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)
