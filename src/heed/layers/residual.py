"""Norms, and the residual connections around each sublayer of the transformer."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from heed import kernels
from heed.functional.attention import Mask
from heed.layers.attention import CrossAttention, KeyValue, SelfAttention
from heed.layers.dropout import Dropout
from heed.layers.edits import WeightEdit
from heed.layers.feedforward import FeedForward

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


@dataclass(frozen=True, kw_only=True)
class ResidualOptions:
    """What the residual connections of a transformer have in common."""

    d_model: int
    dropout: float  # of the sublayer's output, while training
    norm: str  # pre | post | none
    norm_kind: str  # a name in `NORMS`
    add: bool  # add the sublayer's input to its output. Otherwise the output replaces the input


class Residual(nn.Module, Generic[SublayerT]):
    """A sublayer f with its residual connection, dropout and norm.

    Pre-norm is x + dropout(f(norm(x))) (Xiong et al. 2020, fig. 1b), post-norm is norm(x + dropout(f(x))) (Vaswani et
    al. 2017, §3.1). The norm and the sum (He et al. 2016, eq. 1) can each be left out for an ablation. A subclass
    computes ``self.connect(x, f(self.sublayer_input(x)))``.
    """

    def __init__(self, sublayer: SublayerT, options: ResidualOptions) -> None:
        super().__init__()
        self.sublayer = sublayer
        self.norm = nn.Identity() if options.norm == "none" else NORMS[options.norm_kind](options.d_model)
        self.dropout = Dropout(options.dropout)
        self.pre_norm = options.norm == "pre"
        self.add = options.add

    def sublayer_input(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Return norm(x) with pre-norm, else ``x``."""
        return kernels.cast_for_matmul(self.norm(x) if self.pre_norm else x)

    def connect(self, x: Float[Tensor, "B N D"], update: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Return the output, given ``x`` and the sublayer's output ``update``."""
        update = self.dropout(update)
        x = x + update if self.add else update
        return x if self.pre_norm else self.norm(x)


class SelfAttentionBlock(Residual[SelfAttention]):
    """Self-attention with its residual connection. Arguments and results are those of `SelfAttention`."""

    def forward(
        self, x: Float[Tensor, "B T D"], past: KeyValue | None, mask: Mask, *, maps: bool, edit: WeightEdit | None
    ) -> tuple[Float[Tensor, "B T D"], KeyValue, Float[Tensor, "B H T P"] | None]:
        update, present, weights = self.sublayer(self.sublayer_input(x), past, mask, maps=maps, edit=edit)
        return self.connect(x, update), present, weights


class CrossAttentionBlock(Residual[CrossAttention]):
    """Cross-attention with its residual connection. Arguments and results are those of `CrossAttention`."""

    def forward(
        self, x: Float[Tensor, "R T D"], memory: KeyValue, mask: Mask, *, maps: bool, edit: WeightEdit | None
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R H T S"] | None]:
        update, weights = self.sublayer(self.sublayer_input(x), memory, mask, maps=maps, edit=edit)
        return self.connect(x, update), weights


class FeedForwardBlock(Residual[FeedForward]):
    """A feed-forward network with its residual connection."""

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return self.connect(x, self.sublayer(self.sublayer_input(x)))
