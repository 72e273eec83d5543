"""What keeps the scale of a layer's input in check."""

from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """x / √(mean(x²) + ε) · g over the last axis (Zhang & Sennrich 2019, eq. 4): no mean, no bias; ε = 1e-6."""

    def __init__(self, width: int) -> None:
        # Left to torch, ε differs from precision to precision.
        super().__init__(width, eps=1e-6)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        # torch warns of, and does slowly, bf16 states with fp32 weights, as autocast has them.
        return super().forward(x.to(self.weight.dtype))


NORMS: dict[str, type[nn.LayerNorm] | type[RMSNorm]] = {"layer": nn.LayerNorm, "rms": RMSNorm}
"""*layer*: (x − mean) / √(var + ε) · g + b (Ba et al. 2016, eq. 4)."""
