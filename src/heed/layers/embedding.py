"""Token embeddings, and the same table read backwards as the output layer."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heed.symbols import PAD


class TokenEmbedding(nn.Embedding):
    """ids → √D · E[ids], with E ~ N(0, 1/D), so that a token enters with unit variance.

    Tied to the output (Press & Wolf 2017; Vaswani et al. 2017, §3.4), E keeps the small scale a logit wants.
    """

    def __init__(self, *, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model, padding_idx=PAD)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        self._fill_padding_idx_with_zero()

    def forward(self, input: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return super().forward(input) * self.embedding_dim**0.5

    def logits(self, states: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """The inner product of each state with each token's vector."""
        return F.linear(states, self.weight)
