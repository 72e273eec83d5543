"""Scaled dot-product attention with many heads (Vaswani et al. 2017, §3.2)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed.layers.masks import masked_softmax


def attend(
    query: Float[Tensor, "*B T E"],
    key: Float[Tensor, "*B S E"],
    value: Float[Tensor, "*B S V"],
    mask: Bool[Tensor, "*#B #T S"],
    *,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*B T V"], Float[Tensor, "*B T S"]]:
    """softmax(QKᵀ/√E)V and the weights (Vaswani et al. 2017, eq. 1): the plain path, readable as the formula.

    Args:
        mask: True = may attend.
        dropout: probability with which a weight is dropped on its way to the context (0 when not training).
            The weights returned are those before dropout.
    """
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    weights = masked_softmax(scores, mask)
    return F.dropout(weights, dropout) @ value, weights


def attend_fused(
    query: Float[Tensor, "*B T E"],
    key: Float[Tensor, "*B S E"],
    value: Float[Tensor, "*B S V"],
    mask: Bool[Tensor, "*#B #T S"],
    *,
    dropout: float = 0.0,
) -> Float[Tensor, "*B T V"]:
    """The same context as :func:`attend` from torch's fused kernels, which never form the weights."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values: of a whole memory, or of the positions decoded so far (the KV cache)."""

    key: Float[Tensor, "B H S E"]
    value: Float[Tensor, "B H S E"]

    def append(self, new: "KeyValue") -> "KeyValue":
        """These positions, then the new ones."""
        return KeyValue(torch.cat((self.key, new.key), 2), torch.cat((self.value, new.value), 2))

    def reorder(self, rows: Int[Tensor, " R"]) -> "KeyValue":
        """Row r becomes this one's row ``rows[r]``."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_H) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (Vaswani et al. 2017, §3.2.2).

    Keys and values come in projected (:meth:`project`), so that a memory is projected once per sentence and a decoder
    position once per hypothesis, however often they are attended to.
    """

    def __init__(self, *, d_model: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        for weight in (self.query.weight, *self.key_value.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.query.bias, self.key_value.bias, self.output.bias):
            nn.init.zeros_(bias)

    def project(self, states: Float[Tensor, "B S D"]) -> KeyValue:
        """The keys and values of these states, split into heads."""
        key, value = self.key_value(states).chunk(2, dim=-1)
        return KeyValue(self._split(key), self._split(value))

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        memory: KeyValue,
        mask: Bool[Tensor, "#B 1 #T S"],
        *,
        maps: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Let every state query the memory; the weights come back only when ``maps`` asks for them."""
        query = self._split(self.query(states))
        dropout = self.dropout if self.training else 0.0
        weights = None
        if maps:
            context, weights = attend(query, memory.key, memory.value, mask, dropout=dropout)
        else:
            context = attend_fused(query, memory.key, memory.value, mask, dropout=dropout)
        return self.output(context.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N E"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
