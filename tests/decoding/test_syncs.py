"""How often a search waits for the device: counted on a CPU, with stop checks as rare as on an accelerator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heed.decoding import BeamSearch, GreedySearch, SampleSearch, Search, beam, search
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS, PAD
from tests.syncs import counted

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


def batch() -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(ids) for ids in SOURCES])
    src = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in SOURCES], batch_first=True, padding_value=PAD)
    return src, torch.arange(src.shape[1]) < lengths[:, None]


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (search, beam):
        monkeypatch.setattr(module, "steps_between_stop_checks", lambda device: EVERY)


@pytest.fixture(params=["transformer", "rnn"])
def model(request: pytest.FixtureRequest, tiny_model: Callable[..., Seq2Seq]) -> Seq2Seq:
    torch.manual_seed(5)
    model = tiny_model(request.param)
    with torch.no_grad():  # far enough from the uniform distribution to end at different lengths
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "nucleus"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_search_waits_at_most_once_in_eight_tokens(
    kind: str, dtype: torch.dtype, model: Seq2Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model.to(dtype)
    step, encode = model.step, model.encode
    steps = []
    against_eos = 4 * F.one_hot(torch.tensor(EOS), 29)

    def reluctant_step(*args: Any, **kwargs: Any) -> Any:
        """A step after which EOS is improbable: long translations of different lengths."""
        output, state = step(*args, **kwargs)
        steps.append(1)
        return replace(output, logits=output.logits - against_eos), state

    monkeypatch.setattr(model, "step", reluctant_step)
    with counted(monkeypatch) as encoding:
        encode(*batch())  # once per batch, not per token; an RNN packs by lengths on the host
    with counted(monkeypatch) as seen:
        searches(60)[kind](model, *batch())
    assert len(steps) > 40
    at_start_and_end = 6
    assert len(seen) - len(encoding) <= len(steps) / EVERY + at_start_and_end, seen


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "nucleus"])
def test_rare_stop_checks_change_nothing(kind: str, model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    at_every_step = searches(9)[kind](model, *batch())
    assert len({len(h.tokens) for n_best in at_every_step for h in n_best}) > 2
    for module in (search, beam):
        monkeypatch.setattr(module, "steps_between_stop_checks", lambda device: EVERY)
    rarely = searches(9)[kind](model, *batch())
    for ours, theirs in zip(rarely, at_every_step, strict=True):
        assert [(h.tokens, h.finished) for h in ours] == [(h.tokens, h.finished) for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-9)
