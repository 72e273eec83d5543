"""The position-wise feed-forward network."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """W_2 φ(W_1 x + b_1) + b_2 at each position alone (Vaswani et al. 2017, eq. 2, where φ is ReLU)."""

    def __init__(self, *, d_model: int, d_ff: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)
        for linear in (self.widen, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return self.narrow(self.dropout(self.activation(self.widen(x))))
