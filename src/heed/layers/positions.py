"""What tells the positions of a sentence apart. Attention alone cannot: it treats its input as a set."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heed.errors import HeedError


class Positions(nn.Module):
    """Adds to each embedding a vector that says where it stands; this base adds nothing (positions: none)."""

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        """``x`` with positions ``start .. start + N - 1`` (counted from 0) marked."""
        return x


class SinusoidalPositions(Positions):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same) (Vaswani et al. 2017, §3.5). No length limit."""

    frequencies: Tensor

    def __init__(self, *, d_model: int) -> None:
        super().__init__()
        exponents = torch.arange(0, d_model, 2) / d_model
        self.register_buffer("frequencies", torch.exp(-math.log(10_000.0) * exponents), persistent=False)

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        positions = torch.arange(start, start + x.shape[1], device=x.device, dtype=self.frequencies.dtype)
        angles = torch.outer(positions, self.frequencies)
        code = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, : x.shape[2]]
        return x + code.to(x.dtype)


class LearnedPositions(Positions):
    """One trained vector per position (Gehring et al. 2017, §3.1); a longer sentence is refused."""

    def __init__(self, *, d_model: int, max_length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        stop, limit = start + x.shape[1], self.weight.shape[0]
        if stop > limit:
            raise HeedError(
                f"A sentence of {stop} tokens (its end included) is longer than the {limit} positions this model "
                "has learned. Shorten the sentence, or train with a larger model.positions.max_length, or with "
                "model/positions=sinusoidal, which has no limit."
            )
        return x + self.weight[start:stop]


@dataclass(frozen=True, kw_only=True)
class PositionsConfig:
    """Which position code, and how many positions it must have (``max_length``: learned ones only, else null)."""

    kind: str
    max_length: int | None

    def __post_init__(self) -> None:
        if self.kind not in ("sinusoidal", "learned", "none"):
            raise HeedError(f"model.positions.kind={self.kind} is unknown: choose sinusoidal, learned or none.")
        if (self.kind == "learned") != (self.max_length is not None):
            raise HeedError(
                f"model.positions.max_length={self.max_length} contradicts model.positions.kind={self.kind}: "
                "learned positions need a maximal length, the others have none (null)."
            )

    def build(self, d_model: int) -> Positions:
        """The module for embeddings of this width."""
        if self.kind == "learned":
            assert self.max_length is not None
            return LearnedPositions(d_model=d_model, max_length=self.max_length)
        return SinusoidalPositions(d_model=d_model) if self.kind == "sinusoidal" else Positions()
