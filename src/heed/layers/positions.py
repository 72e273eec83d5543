"""What tells the positions of a sentence apart. Attention alone cannot: it treats its input as a set.

Absolute codes say *where* a token stands and enter once, with the embeddings. Relative ones say *how far apart* two
tokens stand and act inside every self-attention: on queries and keys, or on their scores.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heed.errors import HeedError
from heed.options import AtLeast1


class AbsolutePositions(nn.Module):
    """Marks each embedding with where it stands; this base leaves them alone (positions: none, or relative ones)."""

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        """``x`` with positions ``start .. start + N - 1`` (counted from 0) marked."""
        return x


class PositionCode(AbsolutePositions, ABC):
    """One vector p per position, and how it meets the embedding x: *add* x + p, or *concat* W [x; p].

    W: 2D → D keeps the model's width whatever the merge. Written as W_x x + W_p p it shows what the two have in
    common: adding is concatenating with both halves of W fixed to the identity.
    """

    def __init__(self, *, d_model: int, merge: str) -> None:
        super().__init__()
        self.merge = nn.Linear(2 * d_model, d_model, bias=False) if merge == "concat" else None
        if self.merge is not None:
            nn.init.xavier_uniform_(self.merge.weight)

    @abstractmethod
    def code(self, start: int, length: int) -> Float[Tensor, "N D"]:
        """The vectors of ``length`` positions from ``start`` on."""

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        code = self.code(start, x.shape[1]).to(x.dtype)
        if self.merge is None:
            return x + code
        marked: Tensor = self.merge(torch.cat((x, code.expand_as(x)), -1))
        return marked


class SinusoidTable(nn.Module):
    """sin and cos of position × frequency, the frequencies 10000^(−2i/width) for i = 0 … ⌈width/2⌉ − 1.

    In the frequencies' own precision, which autocast leaves alone: bf16 knows no integer between 256 and 258.
    """

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        frequencies = torch.exp(-math.log(10_000.0) * (torch.arange(0, width, 2) / width))
        self.register_buffer("frequencies", frequencies, persistent=False)
        # Kept, for rotary positions ask twice a layer, in a search at every step.
        self._known = frequencies.new_empty(2, 0, len(frequencies))

    def forward(self, start: int, length: int) -> tuple[Float[Tensor, "N W"], Float[Tensor, "N W"]]:
        """Both of positions ``start .. start + length - 1``."""
        stop = start + length
        known, wanted = self._known, self.frequencies
        if (known.device, known.dtype) != (wanted.device, wanted.dtype) or known.shape[1] < stop:
            with torch.inference_mode(False):  # training may read what a search has written
                positions = torch.arange(2 * stop, device=wanted.device, dtype=wanted.dtype)
                angles = torch.outer(positions, wanted)
                known = self._known = torch.stack((angles.sin(), angles.cos()))
        sin, cos = known[:, start:stop]
        return sin, cos


class SinusoidalPositions(PositionCode):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same) (Vaswani et al. 2017, §3.5). No length limit."""

    def __init__(self, *, d_model: int, merge: str) -> None:
        super().__init__(d_model=d_model, merge=merge)
        self.waves = SinusoidTable(d_model)
        self.d_model = d_model

    def code(self, start: int, length: int) -> Float[Tensor, "N D"]:
        return torch.stack(self.waves(start, length), -1).flatten(1)[:, : self.d_model]


class LearnedPositions(PositionCode):
    """One trained vector per position (Gehring et al. 2017, §3.1); a longer sentence is refused."""

    def __init__(self, *, d_model: int, merge: str, max_length: int) -> None:
        super().__init__(d_model=d_model, merge=merge)
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def code(self, start: int, length: int) -> Float[Tensor, "N D"]:
        stop, limit = start + length, self.weight.shape[0]
        if stop > limit:
            raise HeedError(
                f"A sentence of {stop} tokens (its end included) is longer than the {limit} positions this model "
                "has learned. Shorten the sentence, or train with a larger model.positions.max_length, or with "
                "model/positions=sinusoidal, which has no limit."
            )
        return self.weight[start:stop]


class RelativePositions(nn.Module):
    """What one self-attention knows of the distance between a query and a key; this base knows nothing of it.

    A scheme speaks in one of two places. Whatever it says depends on distances only: it has no length limit, and moving
    a whole sentence changes nothing.
    """

    rotates = False
    """Whether keys meet a query differently by their distance, and with them a bias that all keys share."""

    def turn(self, x: Float[Tensor, "B H N E"], start: int) -> Float[Tensor, "B H N E"]:
        """Queries or keys as they meet each other; they stand at positions ``start .. start + N - 1``."""
        return x

    def bias(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"] | None:
        """What is added to the scores, if anything. The queries stand at the last of the keys' positions."""
        return None


class RotaryPositions(RelativePositions):
    """q_m and k_n turned by the angles mθ_i and nθ_i, pair by pair, θ_i = 10000^(−2i/E) (Su et al. 2021, eq. 15, 34).

    Their product then depends on n − m alone, and their norms stay. Number i is paired with number i + E/2 rather than
    with its neighbour: the same function up to the order of W^Q's and W^K's rows, in longer strides.
    """

    rotates = True

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.waves = SinusoidTable(width)

    def turn(self, x: Float[Tensor, "B H N E"], start: int) -> Float[Tensor, "B H N E"]:
        sin, cos = (wave.to(x.dtype) for wave in self.waves(start, x.shape[2]))
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class LinearBias(RelativePositions):
    """ALiBi: −m_h |i − j| on the scores, with the slopes m_h = 2^(−8h/H), h = 1 … H (Press et al. 2022, §3).

    The paper's is a decoder, where j ≤ i; an encoder looks both ways and loses as much either way.
    """

    slopes: Tensor

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        slopes = torch.tensor([2.0 ** (-8 * head / num_heads) for head in range(1, num_heads + 1)])
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"]:
        distances = _distances(queries, keys, self.slopes.device).abs()
        return -self.slopes[None, :, None, None] * distances


class LearnedBias(RelativePositions):
    """T5's: a trained number per head and bucket of distances on the scores (Raffel et al. 2020, §2.1).

    Preferred to Shaw et al. 2018, who add a trained vector per distance to every key: a bias on the scores leaves keys
    and values as they are, so that it works with fused kernels, caches and parameter-free attention alike. 32 buckets:
    one per distance at first, then logarithmically wider ones up to 128, beyond which all is one; an encoder gives each
    direction half. T5 shares one table among its layers; here each layer has its own, as it has of everything else.
    """

    BUCKETS, FARTHEST = 32, 128
    buckets: Tensor

    def __init__(self, *, num_heads: int, causal: bool) -> None:
        super().__init__()
        # As large as the scores they are added to, so that heads prefer different distances from the start. Zeros grow
        # slowly: after 500 steps on the built-in corpus they are still at chance on who does what to whom.
        self.weight = nn.Parameter(torch.randn(self.BUCKETS, num_heads))
        reach = range(-self.FARTHEST, self.FARTHEST + 1)
        buckets = torch.tensor([self.bucket(distance, causal=causal) for distance in reach])
        self.register_buffer("buckets", buckets, persistent=False)

    @classmethod
    def bucket(cls, distance: int, *, causal: bool) -> int:
        """The bucket of a key that stands ``distance`` positions after its query (before it: negative)."""
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
    """j − i for query i (a row each, the last ``queries`` positions) and key j: integers "T S"."""
    positions = torch.arange(keys, device=device)
    return positions - positions[keys - queries :, None]


ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("rotary", "alibi", "relative")


@dataclass(frozen=True, kw_only=True)
class PositionsConfig:
    """Which positions, and for the absolute ones how they enter (``merge``) and how many there are (``max_length``)."""

    kind: str
    """none | sinusoidal | learned | rotary | alibi | relative"""
    merge: str | None
    """add | concat for sinusoidal and learned ones, else null."""
    max_length: AtLeast1 | None
    """Of learned ones, else null."""

    def __post_init__(self) -> None:
        if self.kind not in (*ABSOLUTE, *RELATIVE, "none"):
            raise HeedError(
                f"model.positions.kind={self.kind} is unknown: choose {', '.join((*ABSOLUTE, *RELATIVE))} or none."
            )
        if self.kind in ABSOLUTE and self.merge not in ("add", "concat"):
            raise HeedError(f"model.positions.merge={self.merge} is unknown: choose add or concat.")
        if self.kind not in ABSOLUTE and self.merge is not None:
            raise HeedError(
                f"model.positions.merge={self.merge} contradicts model.positions.kind={self.kind}: only "
                f"{' and '.join(ABSOLUTE)} positions have a vector to merge with the embedding, the others leave "
                "this null."
            )
        if (self.kind == "learned") != (self.max_length is not None):
            raise HeedError(
                f"model.positions.max_length={self.max_length} contradicts model.positions.kind={self.kind}: "
                "learned positions need a maximal length, the others have none (null)."
            )

    def absolute(self, *, d_model: int) -> AbsolutePositions:
        """For embeddings of this width."""
        if self.merge is None:
            return AbsolutePositions()
        if self.max_length is None:
            return SinusoidalPositions(d_model=d_model, merge=self.merge)
        return LearnedPositions(d_model=d_model, merge=self.merge, max_length=self.max_length)

    def relative(self, *, num_heads: int, width: int, causal: bool) -> RelativePositions:
        """For a self-attention of ``num_heads`` heads of this width; ``causal``: it only looks back."""
        match self.kind:
            case "rotary":
                return RotaryPositions(width=width)
            case "alibi":
                return LinearBias(num_heads=num_heads)
            case "relative":
                return LearnedBias(num_heads=num_heads, causal=causal)
        return RelativePositions()
