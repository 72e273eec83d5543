"""How well does a decoder state match each source state? One score function each, for the RNN's attention.

``prepare`` does, once per sentence, all that depends on the source alone; ``forward`` the rest, once per step. Which
of the scores then share the attention is said by their reach (heed.layers.reach).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed.errors import HeedError


class ScoreFunction(nn.Module):
    """score(h_t, h_s) = h_tᵀ h_s, *dot* (Luong et al. 2015, eq. 8): both widths equal, no parameters."""

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        """The keys: source states as the queries will meet them."""
        return states

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        """The unnormalised scores of every query with every key.

        ``coverage``: the attention that each source state has had before each query, for a score that heeds it.
        """
        assert coverage is None
        return query @ keys.transpose(1, 2)


class ScaledDotScore(ScoreFunction):
    """h_tᵀ h_s / √D (Vaswani et al. 2017, §3.2.1): keeps the variance of the scores at 1 whatever the width."""

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        return super().forward(query * query.shape[-1] ** -0.5, keys, coverage)


class GeneralScore(ScoreFunction):
    """h_tᵀ W h_s (Luong et al. 2015, eq. 8)."""

    def __init__(self, *, query_width: int, state_width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(state_width, query_width, bias=False)

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        keys: Tensor = self.weight(states)
        return keys


class AdditiveScore(ScoreFunction):
    """vᵀ tanh(W h_t + U h_s) (Bahdanau et al. 2015, appendix A.1.2).

    Luong's *concat*, vᵀ tanh(W_a [h_t; h_s]) (2015, eq. 8), is the same function: W_a split into its two halves,
    so that the half that meets the source is applied once per sentence.

    With coverage the score also knows how much attention a state has had, vᵀ tanh(W h_t + U h_s + w_c c_t(s)) with
    c_t = Σ_{t' < t} a_{t'} (See et al. 2017, eq. 10 and 11; their coverage loss is left out).
    """

    def __init__(self, *, query_width: int, state_width: int, width: int, coverage: bool) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.state = nn.Linear(state_width, width, bias=False)
        self.coverage = nn.Linear(1, width, bias=False) if coverage else None
        self.v = nn.Linear(width, 1, bias=False)

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        keys: Tensor = self.state(states)
        return keys

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        meeting = self.query(query)[:, :, None] + keys[:, None]
        if self.coverage is not None:
            assert coverage is not None
            meeting = meeting + self.coverage(coverage[..., None])
        scores: Tensor = self.v(torch.tanh(meeting)).squeeze(-1)
        return scores


class LocationScore(ScoreFunction):
    """(W h_t)_s: from the decoder's state alone, one score for each of ``max_source`` positions (Luong 2015, eq. 8).

    It has no weights for what lies further: a longer source is refused.
    """

    def __init__(self, *, query_width: int, max_source: int) -> None:
        super().__init__()
        self.weight = nn.Linear(query_width, max_source, bias=False)

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S A"]:
        """Raises HeedError where a source, padding aside, is longer than ``max_source``."""
        limit = self.weight.out_features
        if mask[:, limit:].any():
            raise HeedError(
                f"A source of {int(mask.sum(1).max())} pieces is longer than model.attention.max_source={limit}, and "
                "location attention has no weights for the rest. Shorten the sentence, or train with a larger "
                "model.attention.max_source, or with another model.attention.score, which have no limit."
            )
        return states

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B S A"],
        coverage: Float[Tensor, "B T S"] | None = None,
    ) -> Float[Tensor, "B T S"]:
        assert coverage is None
        # A negative pad cuts. What is added where the source is longer is padding, which nobody looks at.
        return F.pad(self.weight(query), (0, keys.shape[1] - self.weight.out_features))


SCORES = ("dot", "scaled_dot", "general", "concat", "additive", "location")
COVERAGE_SCORES = ("concat", "additive")
"""Those that can heed coverage."""


def build_score_function(
    kind: str, *, query_width: int, state_width: int, max_source: int | None, coverage: bool
) -> ScoreFunction:
    """The score function of this name; both additive forms work in the query's width."""
    match kind:
        case "dot" | "scaled_dot":
            assert query_width == state_width
            return ScoreFunction() if kind == "dot" else ScaledDotScore()
        case "general":
            return GeneralScore(query_width=query_width, state_width=state_width)
        case "concat" | "additive":
            return AdditiveScore(query_width=query_width, state_width=state_width, width=query_width, coverage=coverage)
        case "location":
            assert max_source is not None
            return LocationScore(query_width=query_width, max_source=max_source)
    raise AssertionError(kind)
