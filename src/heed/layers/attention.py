"""Scaled dot-product attention, with one head and nothing learned or with many (Vaswani et al. 2017, §3.2)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed.errors import HeedError
from heed.functional.masks import masked_softmax
from heed.layers.dropout import dropout as drop
from heed.layers.positions import RelativePositions

SHORT = 256
"""Keys up to which a CPU is faster in bf16 without torch's fused kernel: of 25 keys three times, gradient included."""

FEW = 8
"""Queries up to which it is faster without in fp32, too, for many rows: such as the one query of a search, twice."""

MANY = 128
"""Rows × heads that are many."""


def attend(
    query: Float[Tensor, "*B T E"],
    key: Float[Tensor, "*B S E"],
    value: Float[Tensor, "*B S V"],
    mask: Bool[Tensor, "*#B #T S"],
    *,
    bias: Float[Tensor, "*#B T S"] | None = None,
    scaled: bool = True,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*B T V"], Float[Tensor, "*B T S"]]:
    """softmax(QKᵀ/√E + bias)V and the weights (Vaswani et al. 2017, eq. 1): the plain path, readable as the formula.

    Args:
        mask: True = may attend.
        bias: what positions add to the scores.
        scaled: without it the scores are not divided by √E, and their variance grows with E.
        dropout: probability with which a weight is dropped on its way to the context (0 when not training).
            The weights returned are those before dropout.
    """
    scores = (query * query.shape[-1] ** -0.5 if scaled else query) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask)
    return drop(weights, dropout) @ value, weights


def attend_fast(
    query: Float[Tensor, "*B T E"],
    key: Float[Tensor, "*B S E"],
    value: Float[Tensor, "*B S V"],
    mask: Bool[Tensor, "*#B #T S"],
    *,
    bias: Float[Tensor, "*#B T S"] | None = None,
    scaled: bool = True,
    dropout: float = 0.0,
) -> Float[Tensor, "*B T V"]:
    """The context of :func:`attend`, from torch's fused kernels, which never form the weights, where they pay."""
    small = key.shape[-2] <= SHORT and query.dtype == torch.bfloat16
    small |= query.shape[-2] <= FEW and query.shape[:-2].numel() >= MANY
    if small and query.device.type == "cpu":
        # Heads split off a projection lie scattered, and a product would gather the keys transposed, which is slow.
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        return attend(query, key, value, mask, bias=bias, scaled=scaled, dropout=dropout)[0]
    added = mask if bias is None else torch.where(mask, bias.to(query.dtype), -torch.inf)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=added, dropout_p=dropout, scale=None if scaled else 1.0
    )


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values: of a whole memory, or of the positions decoded so far (the KV cache)."""

    key: Float[Tensor, "B H S E"]
    value: Float[Tensor, "B H S E"]

    @property
    def length(self) -> int:
        """How many positions they are of."""
        return self.key.shape[2]

    def append(self, new: "KeyValue") -> "KeyValue":
        """These positions, then the new ones."""
        return KeyValue(torch.cat((self.key, new.key), 2), torch.cat((self.value, new.value), 2))

    def contiguous(self) -> "KeyValue":
        """The same, with the numbers of each head side by side."""
        return KeyValue(self.key.contiguous(), self.value.contiguous())

    def reorder(self, rows: Int[Tensor, " R"]) -> "KeyValue":
        """Row r becomes this one's row ``rows[r]``."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class Attention(nn.Module, ABC):
    """What attention does whatever is learned of it: project, split into heads, attend, join.

    Keys and values come in projected (:meth:`project`), so that a memory is projected once per sentence and a decoder
    position once per hypothesis, however often they are attended to.

    Args:
        scaled: divide the scores by √E.
        dropout: of weights, while training.
        positions: what is known of distances. Attention to another sequence gets the base, which knows nothing: two
            languages share no distances.
    """

    num_heads: int
    query: nn.Module
    output: nn.Module
    """Reads the heads' contexts side by side."""

    def __init__(self, *, scaled: bool, dropout: float, positions: RelativePositions) -> None:
        super().__init__()
        self.scaled = scaled
        self.dropout = dropout
        self.positions = positions

    @abstractmethod
    def key_and_value(self, states: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        """What the states are found by, and what they then give."""

    def project(self, states: Float[Tensor, "B N D"], past: KeyValue | None = None) -> KeyValue:
        """The keys and values of these states, split into heads, behind those of the positions before them."""
        key, value = self.key_and_value(states)
        start = 0 if past is None else past.length
        new = KeyValue(self.positions.turn(self._split(key), start), self._split(value))
        return new if past is None else past.append(new)

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        memory: KeyValue,
        mask: Bool[Tensor, "#B 1 #T S"],
        *,
        maps: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Let every state query the memory; the weights come back only when ``maps`` asks for them.

        In self-attention the states are the last positions of the memory.
        """
        queries = states.shape[1]
        query = self.positions.turn(self._split(self.query(states)), memory.length - queries)
        bias = self.positions.bias(queries, memory.length)
        dropout = self.dropout if self.training else 0.0
        key, value = memory.key, memory.value
        weights = None
        if maps:
            context, weights = attend(query, key, value, mask, bias=bias, scaled=self.scaled, dropout=dropout)
        else:
            context = attend_fast(query, key, value, mask, bias=bias, scaled=self.scaled, dropout=dropout)
        return self.output(context.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N E"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)


class ParameterFreeAttention(Attention):
    """a_t = softmax(Xᵀ x_t), H = X A: every state is query, key and value at once; one head, nothing learned.

    Vaswani et al. 2017, eq. 1, with Q = K = V = X: what similarity alone can do.
    """

    def __init__(self, *, scaled: bool, dropout: float, positions: RelativePositions) -> None:
        super().__init__(scaled=scaled, dropout=dropout, positions=positions)
        self.num_heads = 1
        self.query, self.output = nn.Identity(), nn.Identity()

    def key_and_value(self, states: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        return states, states


class MultiHeadAttention(Attention):
    """Concat(head_1 … head_H) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (Vaswani et al. 2017, §3.2.2)."""

    query: nn.Linear
    output: nn.Linear

    def __init__(
        self, *, d_model: int, num_heads: int, scaled: bool, dropout: float, positions: RelativePositions
    ) -> None:
        super().__init__(scaled=scaled, dropout=dropout, positions=positions)
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        for weight in (self.query.weight, *self.key_value.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.query.bias, self.key_value.bias, self.output.bias):
            nn.init.zeros_(bias)
        if not positions.rotates:
            # A bias b of the keys adds q·b to all scores of a query, which softmax ignores: its gradient is nothing but
            # rounding, and Adam would scale that up to full steps, other ones for each number of devices.
            self.key_value.bias.register_hook(_without_key_half)  # type: ignore[no-untyped-call]

    def key_and_value(self, states: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        key, value = self.key_value(states).chunk(2, dim=-1)
        return key, value


def _without_key_half(gradient: Float[Tensor, " D2"]) -> Float[Tensor, " D2"]:
    """The gradient of the biases of keys and values, side by side, with that of the keys set to 0."""
    keys, values = gradient.chunk(2)
    return torch.cat((torch.zeros_like(keys), values))


@dataclass(frozen=True, kw_only=True)
class SelfAttentionConfig:
    """What self-attention learns, in the encoder and in the decoder; attention to the source is always learned."""

    kind: str
    """qkv | parameter_free"""
    scaled: bool
    """Divide the scores by √E."""

    def __post_init__(self) -> None:
        if self.kind not in ("qkv", "parameter_free"):
            raise HeedError(f"model.self_attention.kind={self.kind} is unknown: choose qkv or parameter_free.")
