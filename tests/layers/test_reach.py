"""Every reach against its definition, written out one source position at a time in plain floats."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from heed.layers.reach import REACHES, PredictiveReach, Reach

B, T, S, D = 3, 4, 11, 5
LENGTHS = (11, 1, 6)
MASK = torch.arange(S) < torch.tensor(LENGTHS)[:, None]


def case(kind: str, window: int) -> tuple[Reach, Tensor, Tensor]:
    """A reach, scores "B T S" and the queries "B T D" they are of."""
    reach = REACHES[kind](query_width=D, window=window)
    for parameter in reach.parameters():
        nn.init.normal_(parameter)
    return reach, torch.randn(B, T, S, requires_grad=True), torch.randn(B, T, D, requires_grad=True)


def center(reach: Reach, h_t: Tensor, t: int, length: int) -> float:
    """p_t (Luong et al. 2015, §3.2, eq. 9)."""
    if not isinstance(reach, PredictiveReach):
        return t
    inner = [math.tanh(sum(w * h for w, h in zip(row, h_t.tolist(), strict=True))) for row in reach.W_p.weight.tolist()]
    share = sum(v * x for v, x in zip(reach.v_p.weight[0].tolist(), inner, strict=True))
    return length / (1 + math.exp(-share))


def expected(kind: str, reach: Reach, scores: Tensor, h_t: Tensor, t: int, length: int, window: int) -> list[float]:
    """a_t of one query over one sentence (eq. 7 and 10)."""
    p_t = 0.0 if kind == "global" else center(reach, h_t, t, length)
    inside = [s for s in range(length) if kind == "global" or p_t - window <= s <= p_t + window]
    total = sum(math.exp(scores[s].item()) for s in inside)
    weights = [0.0] * S
    for s in inside:
        gaussian = math.exp(-((s - p_t) ** 2) / (2 * (window / 2) ** 2)) if kind == "local_p" else 1.0
        weights[s] = math.exp(scores[s].item()) / total * gaussian
    return weights


@pytest.mark.parametrize("kind", REACHES)
@given(window=st.integers(1, 12), start=st.integers(0, 20), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_equals_the_definition(kind: str, window: int, start: int, seed: int) -> None:
    """Exactly zero outside the window, at padding, and where the window lies behind the sentence."""
    torch.manual_seed(seed)
    reach, scores, query = case(kind, window)
    weights = reach(scores, query, MASK, start)
    for b, length in enumerate(LENGTHS):
        for t in range(T):
            written_out = expected(kind, reach, scores[b, t], query[b, t], start + t, length, window)
            assert_close(weights[b, t].tolist(), written_out)
            assert [w == 0 for w in weights[b, t].tolist()] == [w == 0 for w in written_out]


def test_the_gaussian_alone_teaches_where_to_look() -> None:
    """p_t moves towards the position that is to be attended to, though the scores say nothing."""
    reach, scores, query = case("local_p", 6)
    assert isinstance(reach, PredictiveReach)
    optimizer = torch.optim.SGD(reach.parameters(), lr=0.5)
    scores, query, mask = torch.zeros(1, 1, S), torch.full((1, 1, D), 0.5), torch.ones(1, S, dtype=torch.bool)
    nn.init.zeros_(reach.v_p.weight)
    assert reach.center(query, mask).item() == S / 2
    for _ in range(100):
        optimizer.zero_grad()
        (-reach(scores, query, mask, 0)[0, 0, 8]).backward()
        optimizer.step()
    assert abs(reach.center(query, mask).item() - 8) < 1.0
