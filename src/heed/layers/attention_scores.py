"""Score functions: how well a query matches each key. For the RNN's attention, and for the heads of the transformer.

``project`` computes once per key what does not depend on the query, ``forward`` the rest. The RNN's query is a decoder
state, and its keys are encoder states. In the transformer both are projections of one head, "B H T E" and "B H S E",
and every head has weights of its own. Which keys a query may attend to is chosen separately.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed import kernels
from heed.errors import HeedError
from heed.functional.attention import Mask, attention_scores, mask_tensor

States = Float[Tensor, "*B S D"]
SourceMask = Bool[Tensor, "B S"] | None
Queries = Float[Tensor, "*B T Q"]
Keys = Float[Tensor, "*B S A"]
Values = Float[Tensor, "*B S V"]
AttentionScores = Float[Tensor, "*B T S"]
Contexts = Float[Tensor, "*B T V"]

SCORES: dict[str, type["ScoreFunction"]] = {}  # the score functions by their names in the options


class HeadLinear(nn.Module):
    """A linear map without bias for each head, initialised as `torch.nn.Linear` is: y_h = W_h x_h."""

    def __init__(self, heads: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(heads, outputs, inputs).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "B H N I"]) -> Float[Tensor, "B H N O"]:
        return x @ self.weight.transpose(1, 2)


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What a score function is built for."""

    query_width: int
    state_width: int
    heads: int | None = None  # of the transformer, each with weights of its own; None: for the RNN
    max_source: int | None = None  # the longest source; None: no limit
    coverage: bool = False  # the score also depends on earlier attention

    def linear(self, inputs: int, outputs: int) -> nn.Module:
        """Return a linear map without bias; of the transformer, one for each head."""
        return nn.Linear(inputs, outputs, bias=False) if self.heads is None else HeadLinear(self.heads, inputs, outputs)


class ScoreFunction(nn.Module, ABC):
    """score(h_t, h_s) for a query h_t and a key h_s.

    A subclass with a name is a value of `model.attention.score`, `model.self_attention.score` and
    `model.cross_attention.score`: ``class DotScore(ScoreFunction, name="dot")``.
    """

    supports_coverage = False
    needs_max_source = False

    def __init_subclass__(cls, name: str = "") -> None:
        if name:
            SCORES[name] = cls

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__()

    def project(self, states: States, mask: SourceMask = None) -> Keys:
        """Return the keys: the part of the score that depends on the attended states only."""
        return states

    @abstractmethod
    def forward(self, query: Queries, keys: Keys, coverage: AttentionScores | None = None) -> AttentionScores:
        """Return the unnormalised score of every query with every key.

        Args:
            keys: the result of :meth:`project`.
            coverage: the sum of the attention weights of each encoder state before each query, for score functions
                that use it; otherwise None.
        """

    def attend(
        self,
        query: Queries,
        keys: Keys,
        value: Values,
        mask: Mask,
        *,
        bias: Float[Tensor, "*#B T S"] | None,
        dropout: float,
        need_weights: bool,
    ) -> tuple[Contexts, AttentionScores | None]:
        """Return the context softmax(scores + bias)V and the attention weights, see :func:`heed.functional.attend`."""
        scores = self(query, keys)
        scores = scores if bias is None else scores + bias
        weights = kernels.masked_softmax(scores, mask_tensor(mask, query, keys))
        return kernels.dropout(weights, dropout) @ value, weights if need_weights else None


class DotScore(ScoreFunction, name="dot"):
    """h_tᵀ h_s (Luong et al. 2015, §3.1). Both widths must be equal."""

    scaled = False  # whether the score is divided by the square root of the width

    def forward(self, query: Queries, keys: Keys, coverage: AttentionScores | None = None) -> AttentionScores:
        return attention_scores(query, keys, None, scaled=self.scaled)

    def attend(
        self, query: Queries, keys: Keys, value: Values, mask: Mask, **options: Any
    ) -> tuple[Contexts, AttentionScores | None]:
        return kernels.attend(query, keys, value, mask, scaled=self.scaled, **options)


class ScaledDotScore(DotScore, name="scaled_dot"):
    """h_tᵀ h_s / √D (Vaswani et al. 2017, §3.2.1), so that the variance of the scores does not grow with D."""

    scaled = True


class GeneralScore(DotScore, name="general"):
    """h_tᵀ W h_s (Luong et al. 2015, §3.1)."""

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.weight = options.linear(options.state_width, options.query_width)

    def project(self, states: States, mask: SourceMask = None) -> Keys:
        return self.weight(states)


class AdditiveScore(ScoreFunction, name="additive"):
    """vᵀ tanh(W h_t + U h_s) (Bahdanau et al. 2015, appendix A.1.2). W h_t has the width of h_t.

    With coverage the score is vᵀ tanh(W h_t + U h_s + w_c c_t(s)), where c_t = Σ_{t' < t} a_{t'} is the sum of earlier
    attention weights (See et al. 2017, eq. 10 and 11, without their coverage loss).
    """

    supports_coverage = True

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        width = options.query_width
        self.query = options.linear(options.query_width, width)
        self.state = options.linear(options.state_width, width)
        self.coverage = nn.Linear(1, width, bias=False) if options.coverage else None
        self.v = options.linear(width, 1)

    def project(self, states: States, mask: SourceMask = None) -> Keys:
        return self.state(states)

    def forward(self, query: Queries, keys: Keys, coverage: AttentionScores | None = None) -> AttentionScores:
        hidden = self.query(query).unsqueeze(-2) + keys.unsqueeze(-3)
        if self.coverage is not None:
            assert coverage is not None
            hidden = hidden + self.coverage(coverage[..., None])
        return self.v(torch.tanh(hidden).flatten(-3, -2)).view(hidden.shape[:-1])


class ConcatScore(AdditiveScore, name="concat"):
    """vᵀ tanh(W_a [h_t; h_s]) (Luong et al. 2015, §3.1): the additive score with W_a = [W; U]."""


class LocationScore(ScoreFunction, name="location"):
    """(W h_t)_s: a score for each of ``max_source`` positions from the decoder state only (Luong et al. 2015, eq. 8).

    It has no weights for positions beyond, so a longer source is refused.
    """

    needs_max_source = True

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        assert options.max_source is not None
        self.weight = nn.Linear(options.query_width, options.max_source, bias=False)

    def project(self, states: States, mask: SourceMask = None) -> Keys:
        """Return the states unchanged.

        Raises:
            HeedError: if a sentence is longer than ``max_source``.
        """
        limit = self.weight.out_features
        assert mask is not None
        # Reading the mask waits for the GPU, so read it only if a source may be too long.
        if mask.shape[1] > limit and mask[:, limit:].any():
            raise HeedError(
                f"A source of {int(mask.sum(1).max())} pieces is longer than model.attention.max_source={limit}, and "
                "location attention has no weights for the rest. Shorten the sentence, or train with a larger "
                "model.attention.max_source or another model.attention.score, which has no limit."
            )
        return states

    def forward(self, query: Queries, keys: Keys, coverage: AttentionScores | None = None) -> AttentionScores:
        # A negative pad truncates. Zeros are added only at padding, which the mask excludes.
        return F.pad(self.weight(query), (0, keys.shape[1] - self.weight.out_features))
