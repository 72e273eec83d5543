"""The linear layer."""

from jaxtyping import Float
from torch import Tensor, nn

from heed import kernels


class Linear(nn.Linear):
    """x Wᵀ + b, computed by ``kernels.linear``."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return kernels.linear(input, self.weight, self.bias)
