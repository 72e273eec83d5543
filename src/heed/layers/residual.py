"""Norms, and the residual connections around each sublayer of the transformer."""

from typing import Any, Generic, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from heed import kernels
from heed.layers.dropout import Dropout

SublayerT = TypeVar("SublayerT", bound=nn.Module)


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


class Residual(nn.Module, Generic[SublayerT]):
    """A sublayer f with its residual connection, dropout and norm.

    Pre-norm is x + dropout(f(norm(x))) (Xiong et al. 2020, fig. 1b), post-norm is norm(x + dropout(f(x))) (Vaswani et
    al. 2017, §3.1). The norm and the sum (He et al. 2016, eq. 1) can each be left out for an ablation.

    Args:
        dropout: of the sublayer's output, while training.
        norm: pre | post | none.
        norm_kind: a name in `NORMS`.
        add: add the sublayer's input to its output. Otherwise the output replaces the input.
    """

    def __init__(
        self, sublayer: SublayerT, *, d_model: int, dropout: float, norm: str, norm_kind: str, add: bool
    ) -> None:
        super().__init__()
        self.sublayer = sublayer
        self.norm = nn.Identity() if norm == "none" else NORMS[norm_kind](d_model)
        self.dropout = Dropout(dropout)
        self.pre_norm = norm == "pre"
        self.add = add

    def forward(self, x: Tensor, *inputs: Any, **options: Any) -> Any:
        """Return the new ``x`` "B N D", followed by whatever else the sublayer returns (such as attention weights).

        ``inputs`` and ``options`` are passed on to the sublayer.
        """
        h = kernels.cast_for_matmul(self.norm(x) if self.pre_norm else x)
        output = self.sublayer(h, *inputs, **options)
        update, *others = output if isinstance(output, tuple) else (output,)
        update = self.dropout(update)
        x = x + update if self.add else update
        x = x if self.pre_norm else self.norm(x)
        return (x, *others) if others else x
