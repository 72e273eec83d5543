"""Token embeddings, whose table also serves as the output layer."""

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


def embeddings(
    *, src_vocab: int, tgt_vocab: int, d_model: int, joint: bool, tie: bool
) -> tuple[TokenEmbedding, TokenEmbedding, TokenEmbedding]:
    """Return the embeddings of target and source, and the output layer.

    Args:
        joint: both sides share one vocabulary.
        tie: the output layer is the target embedding (Press and Wolf 2017), and so is the source embedding of a joint
            vocabulary (Vaswani et al. 2017, §3.4).
    """
    tgt = TokenEmbedding(vocab_size=tgt_vocab, d_model=d_model)
    src = tgt if tie and joint else TokenEmbedding(vocab_size=src_vocab, d_model=d_model)
    output = tgt if tie else TokenEmbedding(vocab_size=tgt_vocab, d_model=d_model)
    return tgt, src, output
