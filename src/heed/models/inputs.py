"""The inputs of a model."""

from jaxtyping import Bool, Int
from torch import Tensor

Source = Int[Tensor, "B S"]
SourceMask = Bool[Tensor, "B S"] | None
Lengths = Int[Tensor, " B"] | None
