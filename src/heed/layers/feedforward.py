"""The position-wise feed-forward network."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heed.layers.dropout import Dropout


def swiglu(x: Float[Tensor, "*B FF"]) -> Float[Tensor, "*B F"]:
    """silu(a) · b of the two halves a and b of the last axis: one gates the other (Shazeer 2020, eq. 6)."""
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "gelu": F.gelu, "swiglu": swiglu}
"""ReLU in place: its own result is all that its gradient needs."""


class FeedForward(nn.Module):
    """W_2 φ(W_1 x + b_1) + b_2 at each position alone (Vaswani et al. 2017, eq. 2, where φ is ReLU).

    SwiGLU needs two numbers for each hidden unit, so W_1 has twice as many rows: d_ff times 2/3 gives the size of the
    others (Shazeer 2020, §3.1).
    """

    def __init__(self, *, d_model: int, d_ff: int, activation: str, dropout: float) -> None:
        super().__init__()
        parts = 2 if activation == "swiglu" else 1
        self.widen = nn.Linear(d_model, parts * d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for weight in (*self.widen.weight.chunk(parts), self.narrow.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.widen.bias, self.narrow.bias):
            nn.init.zeros_(bias)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return self.narrow(self.dropout(self.activation(self.widen(x))))
