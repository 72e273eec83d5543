"""Residual connections with normalisation, around each sublayer of the transformer."""

from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from heed import kernels
from heed.layers.norms import NORMS

SublayerT = TypeVar("SublayerT", bound=nn.Module)


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
        self.dropout = dropout
        self.pre_norm = norm == "pre"
        self.add = add

    def forward(self, x: Tensor, *inputs: Any, **options: Any) -> Any:
        """Return the new ``x`` "B N D", followed by whatever else the sublayer returns (such as attention weights).

        Args:
            x: the residual stream, "B N D".
            inputs, options: passed on to the sublayer.
        """
        h = kernels.cast_for_matmul(self.norm(x) if self.pre_norm else x)
        output = self.sublayer(h, *inputs, **options)
        update, *others = output if isinstance(output, tuple) else (output,)
        if self.training:
            update = kernels.dropout(update, self.dropout)
        x = x + update if self.add else update
        x = x if self.pre_norm else self.norm(x)
        return (x, *others) if others else x
