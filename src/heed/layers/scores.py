"""How well does a decoder state match each source state? One score function each, for the RNN's attention.

``prepare`` does, once per sentence, all that depends on the source alone; ``forward`` the rest, once per step.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed.layers.masks import masked_softmax


class Score(nn.Module):
    """score(h_t, h_s) = h_tᵀ h_s, *dot* (Luong et al. 2015, eq. 8): both widths equal, no parameters."""

    def prepare(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S A"]:
        """The keys: source states as the queries will meet them."""
        return states

    def forward(self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        """The unnormalised scores of every query with every key."""
        return query @ keys.transpose(1, 2)


class ScaledDotScore(Score):
    """h_tᵀ h_s / √D (Vaswani et al. 2017, §3.2.1): keeps the variance of the scores at 1 whatever the width."""

    def forward(self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        return super().forward(query * query.shape[-1] ** -0.5, keys)


class GeneralScore(Score):
    """h_tᵀ W h_s (Luong et al. 2015, eq. 8)."""

    def __init__(self, *, query_width: int, state_width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(state_width, query_width, bias=False)

    def prepare(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S A"]:
        keys: Tensor = self.weight(states)
        return keys


class AdditiveScore(Score):
    """vᵀ tanh(W h_t + U h_s) (Bahdanau et al. 2015, appendix A.1.2).

    Luong's *concat*, vᵀ tanh(W_a [h_t; h_s]) (2015, eq. 8), is the same function: W_a split into its two halves,
    so that the half that meets the source is applied once per sentence.
    """

    def __init__(self, *, query_width: int, state_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.state = nn.Linear(state_width, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)

    def prepare(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S A"]:
        keys: Tensor = self.state(states)
        return keys

    def forward(self, query: Float[Tensor, "B T D"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        meeting = torch.tanh(self.query(query)[:, :, None] + keys[:, None])
        scores: Tensor = self.v(meeting).squeeze(-1)
        return scores


def look(
    score: Score,
    query: Float[Tensor, "B T D"],
    keys: Float[Tensor, "B S A"],
    states: Float[Tensor, "B S C"],
    mask: Bool[Tensor, "B S"],
) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T S"]]:
    """The context c_t = Σ_s a_t(s) h_s, and a_t = softmax_s score(h_t, h_s) (Luong et al. 2015, eq. 7)."""
    weights = masked_softmax(score(query, keys), mask[:, None])
    return weights @ states, weights


SCORES = ("dot", "scaled_dot", "general", "concat", "additive")


def build_score(kind: str, *, query_width: int, state_width: int) -> Score:
    """The score function of this name; both additive forms work in the query's width."""
    match kind:
        case "dot":
            return Score()
        case "scaled_dot":
            return ScaledDotScore()
        case "general":
            return GeneralScore(query_width=query_width, state_width=state_width)
        case "concat" | "additive":
            return AdditiveScore(query_width=query_width, state_width=state_width, width=query_width)
    raise AssertionError(kind)
