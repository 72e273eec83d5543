"""Score functions: how well a decoder state matches each encoder state, for the RNN's attention.

``project`` computes once per sentence what depends on the source only, ``forward`` the rest at every step. The window
of source positions that share the attention is chosen separately (heed.layers.reach).
"""

from abc import ABC, abstractmethod
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed.errors import HeedError


class ScoreFunction(nn.Module, ABC):
    """score(h_t, h_s) for a decoder state h_t and an encoder state h_s."""

    def project(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        """Return the keys: the part of the score that depends on the encoder states only."""
        return states

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        """Return the unnormalised score of every query with every key.

        Args:
            query: decoder states.
            keys: the result of :meth:`project`.
            coverage: the sum of the attention weights of each encoder state before each query, for score functions
                that use it; otherwise None.
        """


class DotScore(ScoreFunction):
    """h_tᵀ h_s (Luong et al. 2015, eq. 8). Both widths must be equal."""

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        assert coverage is None
        return query @ keys.transpose(1, 2)


class ScaledDotScore(DotScore):
    """h_tᵀ h_s / √D (Vaswani et al. 2017, §3.2.1), so that the variance of the scores does not grow with D."""

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        return super().forward(query * query.shape[-1] ** -0.5, keys, coverage)


class GeneralScore(DotScore):
    """h_tᵀ W h_s (Luong et al. 2015, eq. 8)."""

    def __init__(self, *, query_width: int, state_width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(state_width, query_width, bias=False)

    def project(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        keys: Tensor = self.weight(states)
        return keys


class AdditiveScore(ScoreFunction):
    """vᵀ tanh(W h_t + U h_s) (Bahdanau et al. 2015, appendix A.1.2).

    Luong's *concat*, vᵀ tanh(W_a [h_t; h_s]) (2015, eq. 8), is the same function with W_a = [W; U]. Here U h_s is
    computed once per sentence.

    With coverage the score is vᵀ tanh(W h_t + U h_s + w_c c_t(s)), where c_t = Σ_{t' < t} a_{t'} is the sum of earlier
    attention weights (See et al. 2017, eq. 10 and 11, without their coverage loss).
    """

    def __init__(self, *, query_width: int, state_width: int, width: int, coverage: bool) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.state = nn.Linear(state_width, width, bias=False)
        self.coverage = nn.Linear(1, width, bias=False) if coverage else None
        self.v = nn.Linear(width, 1, bias=False)

    def project(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        keys: Tensor = self.state(states)
        return keys

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        hidden = self.query(query)[:, :, None] + keys[:, None]
        if self.coverage is not None:
            assert coverage is not None
            hidden = hidden + self.coverage(coverage[..., None])
        scores: Tensor = self.v(torch.tanh(hidden)).squeeze(-1)
        return scores


class LocationScore(ScoreFunction):
    """(W h_t)_s: a score for each of ``max_source`` positions from the decoder state only (Luong et al. 2015, eq. 8).

    It has no weights for positions beyond, so a longer source is refused.
    """

    def __init__(self, *, query_width: int, max_source: int) -> None:
        super().__init__()
        self.weight = nn.Linear(query_width, max_source, bias=False)

    def project(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        """Return the states unchanged.

        Raises:
            HeedError: if a sentence is longer than ``max_source``.
        """
        limit = self.weight.out_features
        # Reading the mask waits for the GPU, so read it only if a source may be too long.
        if mask.shape[1] > limit and mask[:, limit:].any():
            raise HeedError(
                f"A source of {int(mask.sum(1).max())} pieces is longer than model.attention.max_source={limit}, and "
                "location attention has no weights for the rest. Shorten the sentence, or train with a larger "
                "model.attention.max_source or another model.attention.score, which has no limit."
            )
        return states

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        assert coverage is None
        # A negative pad truncates. Zeros are added only at padding, which the mask excludes.
        return F.pad(self.weight(query), (0, keys.shape[1] - self.weight.out_features))


ScoreName = Literal["dot", "scaled_dot", "general", "concat", "additive", "location"]
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)
COVERAGE_SCORES = ("concat", "additive")
"""Score functions that support coverage."""


def build_score_function(
    kind: str, *, query_width: int, state_width: int, max_source: int | None, coverage: bool
) -> ScoreFunction:
    """Return the score function of this name. Both additive forms have the query's width."""
    match kind:
        case "dot" | "scaled_dot":
            assert query_width == state_width
            return DotScore() if kind == "dot" else ScaledDotScore()
        case "general":
            return GeneralScore(query_width=query_width, state_width=state_width)
        case "concat" | "additive":
            return AdditiveScore(query_width=query_width, state_width=state_width, width=query_width, coverage=coverage)
        case "location":
            assert max_source is not None
            return LocationScore(query_width=query_width, max_source=max_source)
    raise AssertionError(kind)
