"""Normalisation layers."""

from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """x / √(mean(x²) + ε) · g over the last axis (Zhang & Sennrich 2019, eq. 4), with ε = 1e-6."""

    def __init__(self, width: int) -> None:
        # torch's default ε depends on the dtype.
        super().__init__(width, eps=1e-6)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        # With bf16 inputs and fp32 weights, as under autocast, torch warns and takes a slow path.
        return super().forward(x.to(self.weight.dtype))


NORMS: dict[str, type[nn.LayerNorm] | type[RMSNorm]] = {"layer": nn.LayerNorm, "rms": RMSNorm}
"""*layer* is (x − mean) / √(var + ε) · g + b (Ba et al. 2016, eq. 4)."""
