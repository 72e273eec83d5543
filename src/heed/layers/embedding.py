"""Token embeddings, which also serve as the output layer."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heed.symbols import PAD


class TokenEmbedding(nn.Embedding):
    """ids → √D · E[ids], with E ~ N(0, 1/D), so that embeddings start with unit variance.

    The table E can also be the output layer (Press & Wolf 2017; Vaswani et al. 2017, §3.4).
    """

    def __init__(self, *, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model, padding_idx=PAD)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        nn.init.zeros_(self.weight[PAD])

    def forward(self, input: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return super().forward(input) * self.embedding_dim**0.5

    def logits(self, states: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Return the inner product of each state with the embedding of each token."""
        return F.linear(states, self.weight)
