"""The inputs of a model."""

from jaxtyping import Int
from torch import Tensor

from heed.layers.attention_scores import SourceMask

__all__ = ["Lengths", "SourceMask", "SrcIds"]

SrcIds = Int[Tensor, "B S"]
Lengths = Int[Tensor, " B"] | None
