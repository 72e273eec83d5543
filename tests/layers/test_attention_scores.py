"""Every score function against its formula, written out for one pair of states at a time."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heed.layers.scores import SCORES, AdditiveScore, GeneralScore, Score, build_score, look

B, T, S, D, C = 2, 3, 5, 7, 11


def state_width(kind: str) -> int:
    return D if kind in ("dot", "scaled_dot") else C


def case(kind: str) -> tuple[Score, Tensor, Tensor]:
    """A score with queries "B T D" and source states, of another width wherever that is possible."""
    width = state_width(kind)
    score = build_score(kind, query_width=D, state_width=width)
    return score, torch.randn(B, T, D, requires_grad=True), torch.randn(B, S, width, requires_grad=True)


def formula(score: Score, kind: str, h_t: Tensor, h_s: Tensor) -> Tensor:
    """Luong et al. 2015, eq. 8; Vaswani et al. 2017, §3.2.1; Bahdanau et al. 2015, appendix A.1.2."""
    match kind, score:
        case "dot", _:
            return (h_t * h_s).sum()
        case "scaled_dot", _:
            return (h_t * h_s).sum() / D**0.5
        case "general", GeneralScore():
            return h_t @ score.weight.weight @ h_s
        case "concat", AdditiveScore():
            w_a = torch.cat((score.query.weight, score.state.weight), 1)
            return score.v.weight[0] @ torch.tanh(w_a @ torch.cat((h_t, h_s)))
        case "additive", AdditiveScore():
            return score.v.weight[0] @ torch.tanh(score.query.weight @ h_t + score.state.weight @ h_s)
    raise AssertionError(kind)


def table(score: Score, kind: str, query: Tensor, states: Tensor) -> Tensor:
    pairs = [formula(score, kind, query[b, t], states[b, s]) for b in range(B) for t in range(T) for s in range(S)]
    return torch.stack(pairs).view(B, T, S)


@pytest.mark.parametrize("kind", SCORES)
def test_equals_the_formula(kind: str) -> None:
    score, query, states = case(kind)
    assert_close(score(query, score.prepare(states)), table(score, kind, query, states))


@pytest.mark.parametrize("kind", SCORES)
def test_passes_gradcheck_in_inputs_and_weights(kind: str) -> None:
    score, query, states = case(kind)
    assert torch.autograd.gradcheck(
        lambda query, states, *weights: score(query, score.prepare(states)), (query, states, *score.parameters())
    )


@pytest.mark.parametrize("kind", SCORES)
def test_look_weighs_the_states_by_the_softmax_of_their_scores(kind: str) -> None:
    score, query, states = case(kind)
    lengths = [S, 2]
    mask = torch.arange(S) < torch.tensor(lengths)[:, None]
    context, weights = look(score, query, score.prepare(states), states, mask)
    scores = table(score, kind, query, states)
    for b, length in enumerate(lengths):
        expected = scores[b, :, :length].softmax(-1)
        assert_close(weights[b, :, :length], expected)
        assert not weights[b, :, length:].any()
        assert_close(context[b], torch.einsum("ts,sc->tc", expected, states[b, :length]))


def test_a_scaled_score_keeps_unit_variance_whatever_the_width() -> None:
    for width in (5, 503):
        score = build_score("scaled_dot", query_width=width, state_width=width)
        scores = score(torch.randn(1, 211, width), torch.randn(1, 211, width))
        assert_close(scores.std().item(), 1.0, atol=0.05, rtol=0)
