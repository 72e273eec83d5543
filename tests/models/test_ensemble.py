"""An ensemble is a model like any other: it keeps the contract, and its probabilities are the mean of its members'."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heed.decoding import BeamSearch, GreedySearch
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD

SRC = torch.tensor([[5, 9, 22, 7, EOS], [8, EOS, PAD, PAD, PAD], [6, 6, 11, EOS, PAD]])
MASK = SRC != PAD
TGT = torch.tensor([[BOS, 4, 20], [BOS, 11, 12], [BOS, 28, 5]])

Members = tuple[Seq2Seq, Seq2Seq, Seq2Seq]


@pytest.fixture
def members(tiny_model: Callable[..., Seq2Seq]) -> Members:
    """A mixed company, sure enough of itself for its members to disagree."""
    models = tiny_model("transformer"), tiny_model("rnn"), tiny_model("transformer")
    with torch.no_grad():
        for model in models:
            for parameter in model.parameters():
                parameter.mul_(2.5)
    return models


def stepped(model: Seq2Seq, rows: Tensor) -> Tensor:
    """Logits of one step after another, from a state that was reordered once."""
    state = model.start(model.encode(SRC, MASK)).reorder(rows, sentences=rows)
    logits = []
    for tokens in TGT[rows].T:
        output, state = model.step(tokens, state)
        logits.append(output.logits)
    return torch.cat(logits, dim=1)


def test_probabilities_are_the_mean_of_the_members(members: Members) -> None:
    probabilities = torch.stack([model(SRC, MASK, TGT).softmax(-1) for model in members])
    assert (probabilities.amax(0) - probabilities.amin(0)).max() > 0.3
    ensemble = Ensemble(members)
    logits = ensemble(SRC, MASK, TGT)
    assert_close(logits.exp(), probabilities.mean(0))
    assert_close(logits.logsumexp(-1), torch.zeros(3, 3))
    rows = torch.tensor([2, 0, 0, 1])
    assert_close(stepped(ensemble, rows), logits[rows])


@pytest.mark.slow
@pytest.mark.parametrize("search", [
    GreedySearch(max_length_factor=1.0, max_length_extra=3),
    BeamSearch(beam=4, length_penalty=0.6, n_best=3, max_length_factor=1.0, max_length_extra=3),
])  # fmt: skip
def test_searches_work_unchanged(search: GreedySearch | BeamSearch, members: Members) -> None:
    ensemble = Ensemble(members)
    found = search(ensemble, SRC, MASK)
    for src, mask, n_best in zip(SRC, MASK, found, strict=True):
        source = src[mask][None]
        assert [h.tokens for h in search(ensemble, source, source != PAD)[0]] == [h.tokens for h in n_best]
        for h in n_best:
            target = h.tokens + [EOS] * h.finished
            tgt_in = torch.tensor([[BOS, *target[:-1]]])
            p = torch.stack([model(source, source != PAD, tgt_in).softmax(-1)[0] for model in members]).mean(0)
            assert h.log_prob == pytest.approx(p[range(len(target)), target].log().sum().item(), abs=1e-9)

    # Of one opinion.
    alone, thrice = search(members[0], SRC, MASK), search(Ensemble([members[0]] * 3), SRC, MASK)
    for one, three in zip(alone, thrice, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in three]
        assert all(math.isclose(a.score, b.score, abs_tol=1e-9) for a, b in zip(one, three, strict=True))


def test_the_shortest_limit_holds(members: Members) -> None:
    assert Ensemble(members).max_target_length is None
    for model, limit in zip(members, (7, None, 4), strict=True):
        model.max_target_length = limit
    ensemble = Ensemble(members)
    assert ensemble.max_target_length == 4
    search = BeamSearch(beam=2, length_penalty=0.6, n_best=2, max_length_factor=9.0, max_length_extra=9)
    assert max(len(h.tokens) for n_best in search(ensemble, SRC, MASK) for h in n_best) <= 4
