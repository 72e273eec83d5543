"""Searches with stop checks as rare as on an accelerator."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from heed.decoding import BeamSearch, GreedySearch, SampleSearch, Search, beam, search
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS
from tests.decoding.test_search import batch_of

EVERY = 8
SOURCES = ([7, EOS], [5, 6, 9, 22, 11, 8, EOS], [9, 9, 4, EOS], [20, 21, EOS], [4, 5, 6, EOS])


def searches(extra: int) -> dict[str, Search]:
    limits: dict[str, Any] = {"max_length_factor": 1.0, "max_length_extra": extra}
    return {
        "greedy": GreedySearch(**limits),
        "beam": BeamSearch(beam=4, length_penalty=0.6, n_best=3, **limits),
        "sample": SampleSearch(temperature=1.0, top_k=None, top_p=None, seed=1, n_best=2, **limits),
        "nucleus": SampleSearch(temperature=0.7, top_k=9, top_p=0.8, seed=1, n_best=2, **limits),
    }


@pytest.fixture(params=["transformer", "rnn"])
def model(request: pytest.FixtureRequest, tiny_model: Callable[..., Seq2Seq]) -> Seq2Seq:
    torch.manual_seed(5)
    model = tiny_model(request.param)
    with torch.no_grad():  # far enough from the uniform distribution to end at different lengths
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "nucleus"])
def test_rare_stop_checks_change_nothing(kind: str, model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    at_every_step = searches(9)[kind](model, *batch_of(SOURCES))
    assert len({len(h.tokens) for n_best in at_every_step for h in n_best}) > 2
    for module in (search, beam):
        monkeypatch.setattr(module, "steps_between_stop_checks", lambda device: EVERY)
    rarely = searches(9)[kind](model, *batch_of(SOURCES))
    for ours, theirs in zip(rarely, at_every_step, strict=True):
        assert [(h.tokens, h.finished) for h in ours] == [(h.tokens, h.finished) for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-9)
