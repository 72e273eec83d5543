"""Every score function against its formula, written out for one pair of states at a time."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heed.errors import HeedError
from heed.layers.attention_scores import SCORES, AdditiveScore, GeneralScore, LocationScore, ScoreFunction, ScoreOptions

B, T, S, D, C = 2, 3, 5, 7, 11
EVERYTHING = torch.ones(B, S, dtype=torch.bool)

KINDS = [*SCORES, "concat+coverage", "additive+coverage"]


def state_width(kind: str) -> int:
    return D if kind in ("dot", "scaled_dot") else C


def build(kind: str, *, query_width: int, state_width: int) -> ScoreFunction:
    kind, _, coverage = kind.partition("+")
    max_source = 9 if kind == "location" else None
    return SCORES[kind](
        ScoreOptions(query_width=query_width, state_width=state_width, max_source=max_source, coverage=bool(coverage))
    )


def case(kind: str) -> tuple[ScoreFunction, Tensor, Tensor, Tensor | None]:
    """A score with queries "B T D", source states, of another width wherever that is possible, and coverage "B T S"."""
    width = state_width(kind)
    score = build(kind, query_width=D, state_width=width)
    coverage = torch.rand(B, T, S, requires_grad=True) if kind.endswith("coverage") else None
    return score, torch.randn(B, T, D, requires_grad=True), torch.randn(B, S, width, requires_grad=True), coverage


def formula(score: ScoreFunction, kind: str, h_t: Tensor, h_s: Tensor, s: int, c: Tensor | None) -> Tensor:
    """Luong 2015, §3.1; Vaswani 2017, §3.2.1; Bahdanau 2015, appendix A.1.2; See 2017, eq. 11, with §3.1's W_a."""
    match kind, score:
        case "dot", _:
            return (h_t * h_s).sum()
        case "scaled_dot", _:
            return (h_t * h_s).sum() / D**0.5
        case "general", GeneralScore():
            return h_t @ score.weight.weight @ h_s
        case "location", LocationScore():
            return score.weight.weight[s] @ h_t
        case (("concat" | "concat+coverage"), AdditiveScore()):
            w_a = torch.cat((score.query.weight, score.state.weight), 1)
            covered = 0.0 if score.coverage is None else score.coverage.weight[:, 0] * c
            return score.v.weight[0] @ torch.tanh(w_a @ torch.cat((h_t, h_s)) + covered)
        case (("additive" | "additive+coverage"), AdditiveScore()):
            covered = 0.0 if score.coverage is None else score.coverage.weight[:, 0] * c
            return score.v.weight[0] @ torch.tanh(score.query.weight @ h_t + score.state.weight @ h_s + covered)
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_formula(kind: str) -> None:
    score, query, states, coverage = case(kind)
    found = score(query, score.project(states, EVERYTHING), coverage)
    for b in range(B):
        for t in range(T):
            for s in range(S):
                had = None if coverage is None else coverage[b, t, s]
                assert_close(found[b, t, s], formula(score, kind, query[b, t], states[b, s], s, had))


def test_a_scaled_score_keeps_unit_variance_whatever_the_width() -> None:
    for width in (5, 503):
        score = build("scaled_dot", query_width=width, state_width=width)
        scores = score(torch.randn(1, 211, width), torch.randn(1, 211, width))
        assert_close(scores.std().item(), 1.0, atol=0.05, rtol=0)


def test_location_refuses_a_longer_source_but_no_padding() -> None:
    score = build("location", query_width=D, state_width=C)
    states, query = torch.randn(B, 12, C), torch.randn(B, T, D)
    mask = partial(torch.Tensor.__lt__, torch.arange(12))
    fits = mask(torch.tensor([[9], [4]]))
    scores = score(query, score.project(states, fits))
    assert_close(scores[..., :9], query @ score.get_parameter("weight.weight").T)
    with pytest.raises(HeedError, match=r"10 pieces is longer than model\.attention\.max_source=9"):
        score.project(states, mask(torch.tensor([[9], [10]])))
