"""The position-wise feed-forward network."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heed.layers.dropout import Dropout


def swiglu(x: Float[Tensor, "*B FF"]) -> Float[Tensor, "*B F"]:
    """Return silu(a) · b for the two halves a and b of the last axis (Shazeer 2020, eq. 6)."""
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": swiglu,
}
"""ReLU in place: its gradient needs its result only."""


class FeedForward(nn.Module):
    """W_2 φ(W_1 x + b_1) + b_2 at each position (Vaswani et al. 2017, eq. 2, where φ is ReLU).

    SwiGLU reads two numbers per hidden unit, so W_1 has 2 · d_ff rows. With 2/3 of another activation's d_ff it has as
    many parameters (Shazeer 2020, §3.1).
    """

    def __init__(self, *, d_model: int, d_ff: int, activation: str, dropout: float) -> None:
        super().__init__()
        parts = 2 if activation == "swiglu" else 1
        self.up_projection = nn.Linear(d_model, parts * d_ff)
        self.down_projection = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for weight in (*self.up_projection.weight.chunk(parts), self.down_projection.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.up_projection.bias, self.down_projection.bias):
            nn.init.zeros_(bias)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return self.down_projection(self.dropout(self.activation(self.up_projection(x))))
