"""Multi-head attention as self-attention and cross-attention (Vaswani et al. 2017, §3.2)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heed.errors import HeedError
from heed.functional.attention import Mask, mask_tensor
from heed.layers.attention_scores import SCORES, DotScore, ScoreOptions
from heed.layers.edits import WeightEdit
from heed.layers.positions import RelativePositions
from heed.options import format_value, validated

PRODUCTS = ("dot", "scaled_dot")  # scores without weights

HEAD_SCORES = tuple(name for name, score in SCORES.items() if not score.needs_max_source)
"""Scores of the heads of a transformer."""


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values: of the source, or of the target positions so far (the KV cache)."""

    key: Float[Tensor, "B H S E"]
    value: Float[Tensor, "B H S E"]

    @property
    def length(self) -> int:
        """The number of positions."""
        return self.key.shape[2]

    def append(self, new: "KeyValue") -> "KeyValue":
        """Return these positions followed by the new ones."""
        return KeyValue(torch.cat((self.key, new.key), 2), torch.cat((self.value, new.value), 2))

    def reorder(self, rows: Int[Tensor, " R"]) -> "KeyValue":
        """Return a copy in which row r is this one's row ``rows[r]``."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class Attention(nn.Module, ABC):
    """Attention of any kind: project, split into heads, attend, join the heads, project.

    Keys and values are projected separately (:meth:`project`), so that the source is projected once per sentence and a
    target position once per hypothesis.

    Args:
        width: of the queries and keys of a head.
        score: how well a query matches a key; a name in `SCORES`.
        dropout: of attention weights, while training.
        positions: relative positions of queries and keys. Cross-attention takes the base class, which has none.
    """

    query: nn.Module
    output: nn.Module  # applied to the concatenated contexts of the heads

    def __init__(self, *, width: int, num_heads: int, score: str, dropout: float, positions: RelativePositions) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.score = SCORES[score](ScoreOptions(query_width=width, state_width=width, heads=num_heads))
        self.dropout = dropout
        self.positions = positions

    @abstractmethod
    def key_and_value(self, states: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        """Return the keys and the values of the states, heads side by side."""

    def project(self, states: Float[Tensor, "B N D"], past: KeyValue | None = None) -> KeyValue:
        """Return the keys and values of ``past``, if any, followed by those of the states."""
        key, value = self.key_and_value(states)
        start = 0 if past is None else past.length
        new = KeyValue(self.score.project(self.positions.rotate(self._split(key), start)), self._split(value))
        return new if past is None else past.append(new)

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        memory: KeyValue,
        mask: Mask,
        *,
        maps: bool = False,
        edit: WeightEdit | None = None,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None]:
        """Attend from every state to the memory.

        Args:
            memory: the result of :meth:`project`. In self-attention, the states are its last positions.
            mask: the positions of the memory that each state may attend to.
            maps: also return the attention weights.
            edit: replaces weights, without dropout. It needs ``maps``.
        """
        queries = states.shape[1]
        query = self.positions.rotate(self._split(self.query(states)), memory.length - queries)
        context, weights = self.score.attend(
            query,
            memory.key,
            memory.value,
            mask,
            bias=self.positions.bias(queries, memory.length),
            dropout=self.dropout if self.training else 0.0,
            need_weights=maps,
        )
        if edit is not None:
            assert weights is not None
            weights = edit(weights, mask_tensor(mask, query, memory.key))
            context = weights @ memory.value
        return self.output(context.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N E"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)


class ParameterFreeAttention(Attention):
    """softmax(XXᵀ)X: every state is its own query, key and value. One head, nothing learned.

    Vaswani et al. 2017, eq. 1, with Q = K = V = X. For comparison with learned projections.
    """

    def __init__(self, *, d_model: int, score: str, dropout: float, positions: RelativePositions) -> None:
        super().__init__(width=d_model, num_heads=1, score=score, dropout=dropout, positions=positions)
        self.query, self.output = nn.Identity(), nn.Identity()

    def key_and_value(self, states: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        return states, states


class MultiHeadAttention(Attention):
    """Concat(head_1 … head_H) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (Vaswani et al. 2017, §3.2.2)."""

    query: nn.Linear
    output: nn.Linear

    def __init__(
        self, *, d_model: int, num_heads: int, score: str, dropout: float, positions: RelativePositions
    ) -> None:
        assert d_model % num_heads == 0
        width = d_model // num_heads
        super().__init__(width=width, num_heads=num_heads, score=score, dropout=dropout, positions=positions)
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        for weight in (self.query.weight, *self.key_value.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.query.bias, self.key_value.bias, self.output.bias):
            nn.init.zeros_(bias)
        if isinstance(self.score, DotScore) and not positions.rotates:
            # A bias b of the keys adds q·b to all scores of a query, and softmax ignores it. Its gradient is rounding
            # noise, which Adam would scale up to full steps, different for each number of devices.
            self.key_value.bias.register_hook(_zero_key_gradient)  # type: ignore[no-untyped-call]

    def key_and_value(self, states: Float[Tensor, "B S D"]) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        key, value = self.key_value(states).chunk(2, dim=-1)
        return key, value


def _zero_key_gradient(gradient: Float[Tensor, " D2"]) -> Float[Tensor, " D2"]:
    """Set the gradient of the keys' half of a joint bias to 0."""
    keys, values = gradient.chunk(2)
    return torch.cat((torch.zeros_like(keys), values))


class SelfAttention(nn.Module):
    """Attention of a sequence to itself, with a cache of its past."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, x: Float[Tensor, "B T D"], past: KeyValue | None, mask: Mask, *, maps: bool, edit: WeightEdit | None
    ) -> tuple[Float[Tensor, "B T D"], KeyValue, Float[Tensor, "B H T P"] | None]:
        """Attend to the positions before ``x``, if any, and to ``x`` itself, which are P positions together.

        Return the output, ``past`` extended by ``x``, and the weights if ``maps``.
        """
        present = self.attention.project(x, past)
        output, weights = self.attention(x, present, mask, maps=maps, edit=edit)
        return output, present, weights


class CrossAttention(nn.Module):
    """Attention of the target to the source."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, x: Float[Tensor, "R T D"], memory: KeyValue, mask: Mask, *, maps: bool, edit: WeightEdit | None
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R H T S"] | None]:
        """Attend to the source; return the output, and the weights if ``maps``.

        Of R = N · K rows, K consecutive hypotheses of each of N sentences share its memory and mask.
        """
        N, T, D = memory.key.shape[0], x.shape[1], x.shape[2]
        # The queries of a sentence's K hypotheses become one sequence of K · T queries.
        output, weights = self.attention(x.reshape(N, -1, D), memory, mask, maps=maps, edit=edit)  # "N H KT S"
        if weights is not None:
            weights = weights.unflatten(2, (-1, T)).transpose(1, 2).flatten(0, 1)  # "N K H T S", then "NK H T S"
        return output.view(x.shape), weights


@validated("model.self_attention.")
@dataclass(frozen=True, kw_only=True)
class SelfAttentionConfig:
    """The kind of self-attention in the encoder and the decoder. Cross-attention always has learned projections."""

    kind: Literal["qkv", "parameter_free"]
    score: str  # a name in `SCORES`

    def __post_init__(self) -> None:
        known = PRODUCTS if self.kind == "parameter_free" else HEAD_SCORES
        if self.score not in known:
            raise HeedError(
                f"model.self_attention.score={format_value(self.score)} must be {' or '.join(known)} with "
                f"model.self_attention.kind={self.kind}."
            )


@validated("model.cross_attention.")
@dataclass(frozen=True, kw_only=True)
class CrossAttentionConfig:
    """The attention of the decoder to the source."""

    score: str  # a name in `SCORES`

    def __post_init__(self) -> None:
        if self.score not in HEAD_SCORES:
            raise HeedError(
                f"model.cross_attention.score={format_value(self.score)} must be {' or '.join(HEAD_SCORES)}."
            )
