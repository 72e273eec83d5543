"""Positions. Without them, attention treats a sentence as a bag of tokens.

Absolute positions are combined with the embeddings once. Relative positions act inside every self-attention: on
queries and keys, or on their scores.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heed.errors import HeedError
from heed.options import AtLeast1, format_value, raise_problems, validated

ABSOLUTE: dict[str, type["PositionVectors"]] = {}
RELATIVE: dict[str, type["RelativePositions"]] = {}
"""The classes of positions by their names in `model.positions.kind`."""


Columns: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Two columns of a `SinusoidTable`, computed from angles."""


class AbsolutePositions(nn.Module):
    """Absolute positions of embeddings. This base class has none and returns the embeddings unchanged."""

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        """Return ``x`` combined with the positions ``start`` … ``start + N - 1``, counted from 0."""
        return x


class PositionVectors(AbsolutePositions, ABC):
    """One vector p per position, combined with the embedding x as x + p (*add*) or W [x; p] (*concat*).

    W: 2D → D keeps the model's width. With W = [W_x, W_p], W [x; p] = W_x x + W_p p, so addition is the special case in
    which both halves are the identity.

    A subclass with a name is a value of `model.positions.kind`: ``class LearnedPositions(PositionVectors,
    kind="learned")``.

    Args:
        merge: add | concat.
        max_length: the number of positions of a class with ``has_max_length``; otherwise None.
    """

    has_max_length = False

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            ABSOLUTE[kind] = cls

    def __init__(self, *, d_model: int, merge: str, max_length: int | None) -> None:
        super().__init__()
        self.merge = nn.Linear(2 * d_model, d_model, bias=False) if merge == "concat" else None
        if self.merge is not None:
            nn.init.xavier_uniform_(self.merge.weight)

    @abstractmethod
    def vectors(self, start: int, length: int) -> Float[Tensor, "N D"]:
        """Return the vectors of ``length`` positions from ``start`` on."""

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        vectors = self.vectors(start, x.shape[1]).to(x.dtype)
        return x + vectors if self.merge is None else self.merge(torch.cat((x, vectors.expand_as(x)), -1))


class SinusoidTable(nn.Module):
    """Functions of position × frequency, with the frequencies 10000^(−2i/width) for i = 0 … ⌈width/2⌉ − 1.

    Computed in the dtype of the frequencies, unaffected by autocast: bf16 has no integer between 256 and 258.

    Args:
        columns: returns two columns, from the angles "N W".
    """

    frequencies: Tensor

    def __init__(self, width: int, columns: Columns) -> None:
        super().__init__()
        frequencies = torch.exp(-math.log(10_000.0) * (torch.arange(0, width, 2) / width))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.columns = columns
        # Cached: rotary positions need it twice per layer and search step.
        self._table = frequencies.new_empty(2, 0, len(frequencies))

    def forward(self, start: int, length: int, dtype: torch.dtype) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N C"]]:
        """Return both columns of the positions ``start`` … ``start + length - 1``."""
        stop = start + length
        table, frequencies = self._table, self.frequencies
        if (table.device, table.dtype) != (frequencies.device, dtype) or table.shape[1] < stop:
            with torch.inference_mode(False):  # a table made during inference must be usable in training
                positions = torch.arange(2 * stop, device=frequencies.device, dtype=frequencies.dtype)
                columns = self.columns(torch.outer(positions, frequencies))
                table = self._table = torch.stack(columns).to(dtype)
        first, second = table[:, start:stop]
        return first, second


def sin_and_cos(angles: Float[Tensor, "N W"]) -> tuple[Float[Tensor, "N W"], Float[Tensor, "N W"]]:
    """Return the columns of `SinusoidalPositions`."""
    return angles.sin(), angles.cos()


class SinusoidalPositions(PositionVectors, kind="sinusoidal"):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same) (Vaswani et al. 2017, §3.5). No length limit."""

    def __init__(self, *, d_model: int, merge: str, max_length: int | None) -> None:
        super().__init__(d_model=d_model, merge=merge, max_length=max_length)
        self.sinusoids = SinusoidTable(d_model, sin_and_cos)
        self.d_model = d_model

    def vectors(self, start: int, length: int) -> Float[Tensor, "N D"]:
        columns = self.sinusoids(start, length, self.sinusoids.frequencies.dtype)
        return torch.stack(columns, -1).flatten(1)[:, : self.d_model]


class LearnedPositions(PositionVectors, kind="learned"):
    """One learned vector per position (Gehring et al. 2017, §3.1). Longer sentences are refused."""

    has_max_length = True

    def __init__(self, *, d_model: int, merge: str, max_length: int | None) -> None:
        super().__init__(d_model=d_model, merge=merge, max_length=max_length)
        assert max_length is not None
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def vectors(self, start: int, length: int) -> Float[Tensor, "N D"]:
        stop, limit = start + length, self.weight.shape[0]
        if stop > limit:
            raise HeedError(
                f"A sentence of {stop} tokens (EOS included) is longer than the {limit} positions this model has "
                "learned. Shorten the sentence, or train with a larger model.positions.max_length or with "
                "model/positions=sinusoidal, which has no limit."
            )
        return self.weight[start:stop]


class RelativePositions(nn.Module):
    """The effect of the distance between query and key in one self-attention. This base class has none.

    A scheme either rotates queries and keys or adds a bias to their scores. Both depend on distances only, so there is
    no length limit. A subclass with a name is a value of `model.positions.kind`. Its constructor takes the number of
    heads, the width of each, and whether positions attend to earlier ones only (``causal``).
    """

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            RELATIVE[kind] = cls

    rotates = False
    """Whether queries and keys are rotated, which makes the scores depend on a bias that all keys share."""

    def rotate(self, x: Float[Tensor, "B H N E"], start: int) -> Float[Tensor, "B H N E"]:
        """Return rotated queries or keys of the positions ``start`` … ``start + N - 1``."""
        return x

    def bias(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"] | None:
        """Return what is added to the scores, if anything. The queries are at the last of the keys' positions."""
        return None


class RotaryPositions(RelativePositions, kind="rotary"):
    """Rotation of q_m and k_n by the angles mθ_i and nθ_i with θ_i = 10000^(−2i/E) (Su et al. 2021, eq. 15 and 34).

    The product of the two then depends on n − m only. Element i is paired with element i + E/2 instead of its
    neighbour, as in GPT-NeoX: the same function up to the order of the rows of W^Q and W^K.
    """

    rotates = True

    def __init__(self, *, num_heads: int, width: int, causal: bool) -> None:
        super().__init__()
        self.sinusoids = SinusoidTable(width, rotation_factors)

    def rotate(self, x: Float[Tensor, "B H N E"], start: int) -> Float[Tensor, "B H N E"]:
        own, other = self.sinusoids(start, x.shape[2], x.dtype)
        # (a, b) becomes (a cos − b sin, b cos + a sin).
        return torch.addcmul(x * own, x.roll(x.shape[-1] // 2, -1), other)


def rotation_factors(angles: Float[Tensor, "N W"]) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N E"]]:
    """Return the columns of `RotaryPositions`: the factors of an element and of its partner."""
    sin, cos = angles.sin(), angles.cos()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


class ALiBi(RelativePositions, kind="alibi"):
    """ALiBi: −m_h |i − j| added to the scores, with the slopes m_h = 2^(−8h/H), h = 1 … H (Press et al. 2022, §3).

    The paper has a decoder only, where j ≤ i. In the encoder the bias is symmetric.
    """

    slopes: Tensor

    def __init__(self, *, num_heads: int, width: int, causal: bool) -> None:
        super().__init__()
        slopes = torch.tensor([2.0 ** (-8 * head / num_heads) for head in range(1, num_heads + 1)])
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"]:
        distances = _distances(queries, keys, self.slopes.device).abs()
        return -self.slopes[None, :, None, None] * distances


class T5Bias(RelativePositions, kind="relative"):
    """T5's relative positions: a learned bias per head and bucket of distances (Raffel et al. 2020, §2.1).

    There are 32 buckets: one per distance for short distances, then logarithmically wider ones up to 128. The last one
    also holds everything beyond. In the encoder each direction has half of them. T5 shares one table among its layers;
    here each layer has its own.

    Unlike the vectors of Shaw et al. 2018, which are added to the keys, a bias works with fused kernels, the KV cache
    and parameter-free attention.
    """

    BUCKETS, FARTHEST = 32, 128
    buckets: Tensor

    def __init__(self, *, num_heads: int, width: int, causal: bool) -> None:
        super().__init__()
        # As large as the scores they are added to, so that heads prefer different distances from the start. From zeros
        # they learn too slowly.
        self.weight = nn.Parameter(torch.randn(self.BUCKETS, num_heads))
        reach = range(-self.FARTHEST, self.FARTHEST + 1)
        buckets = torch.tensor([self.bucket(distance, causal=causal) for distance in reach])
        self.register_buffer("buckets", buckets, persistent=False)

    @classmethod
    def bucket(cls, distance: int, *, causal: bool) -> int:
        """Return the bucket of a key ``distance`` positions after its query (negative: before it)."""
        size = cls.BUCKETS if causal else cls.BUCKETS // 2
        first = 0 if causal or distance <= 0 else size
        distance = max(0, -distance) if causal else abs(distance)
        exact = size // 2
        if distance < exact:
            return first + distance
        spread = math.log(distance / exact) / math.log(cls.FARTHEST / exact)
        return first + min(size - 1, exact + int(spread * (size - exact)))

    def bias(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"]:
        distances = _distances(queries, keys, self.weight.device).clamp(-self.FARTHEST, self.FARTHEST)
        return self.weight[self.buckets[distances + self.FARTHEST]].permute(2, 0, 1)[None]


def _distances(queries: int, keys: int, device: torch.device) -> Tensor:
    """Return j − i for query i (the last ``queries`` positions) and key j: integers "T S"."""
    positions = torch.arange(keys, device=device)
    return positions - positions[keys - queries :, None]


@validated("model.positions.")
@dataclass(frozen=True, kw_only=True)
class PositionsConfig:
    """The kind of positions, how absolute ones are combined with embeddings, and the number of learned ones."""

    kind: str  # none, or a name in `ABSOLUTE` or `RELATIVE`
    merge: Literal["add", "concat"] | None  # for sinusoidal and learned positions, else null
    max_length: AtLeast1 | None  # the number of learned positions, else null

    def __post_init__(self) -> None:
        raise_problems(self._contradictions())

    def _contradictions(self) -> Iterator[str]:
        kinds = ("none", *ABSOLUTE, *RELATIVE)
        if self.kind not in kinds:
            yield f"model.positions.kind={format_value(self.kind)} must be {' or '.join(kinds)}."
            return
        if (self.kind in ABSOLUTE) != (self.merge is not None):
            merges = "add or concat" if self.kind in ABSOLUTE else "null"
            yield (
                f"model.positions.merge={format_value(self.merge)} contradicts model.positions.kind={self.kind}: "
                f"choose {merges}."
            )
        limited = [kind for kind, cls in ABSOLUTE.items() if cls.has_max_length]
        if (self.kind in limited) != (self.max_length is not None):
            yield (
                f"model.positions.max_length={format_value(self.max_length)} contradicts "
                f"model.positions.kind={self.kind}: {' and '.join(limited)} positions need a number, the others null."
            )

    def absolute(self, *, d_model: int) -> AbsolutePositions:
        """Return the absolute positions of embeddings of this width."""
        if self.merge is None:
            return AbsolutePositions()
        return ABSOLUTE[self.kind](d_model=d_model, merge=self.merge, max_length=self.max_length)

    def relative(self, *, num_heads: int, width: int, causal: bool) -> RelativePositions:
        """Return the relative positions of one self-attention. See `RelativePositions`."""
        if self.kind not in RELATIVE:
            return RelativePositions()
        return RELATIVE[self.kind](num_heads=num_heads, width=width, causal=causal)
