"""The schedules of scheduled sampling, how often inputs are gold, and the loss of mixed inputs."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch
from heed.errors import HeedError
from heed.models.seq2seq import Memory, Seq2Seq
from heed.symbols import PAD
from heed.training.schedules import ExponentialDecay, InverseSigmoidDecay, LinearDecay
from tests.training.test_module import FAMILIES, build_module, loss_and_gradients, random_batch
from tests.training.test_module import tokenizer as tokenizer

Build = Callable[..., Seq2Seq]

# ---- schedules


def test_the_schedules_of_bengio_et_al() -> None:
    linear = LinearDecay(floor=0.2, steps=100)
    assert [linear(step) for step in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    exponential = ExponentialDecay(k=0.9)
    assert [exponential(step) for step in (0, 1, 10)] == pytest.approx([1.0, 0.9, 0.9**10])
    for k in (1.0, 7.0, 40.0):
        sigmoid = InverseSigmoidDecay(k=k)
        assert [sigmoid(step) for step in (0, 30)] == pytest.approx([k / (k + math.exp(i / k)) for i in (0, 30)])
        assert sigmoid(round(1e6)) == pytest.approx(0, abs=1e-6)
    assert InverseSigmoidDecay(k=200)(round(200 * math.log(200))) == pytest.approx(0.5, abs=1e-3)


@given(step=st.integers(0, 10**9), more=st.integers(0, 10**9), k=st.floats(1, 1e6), floor=st.floats(0, 1))
def test_schedules_are_probabilities_that_never_rise(step: int, more: int, k: float, floor: float) -> None:
    for schedule in (LinearDecay(floor=floor, steps=round(k)), ExponentialDecay(k=1 - 1 / k), InverseSigmoidDecay(k=k)):
        assert 1 >= schedule(step) >= schedule(step + more) >= 0


def test_a_linear_schedule_needs_its_end() -> None:
    with pytest.raises(HeedError, match=r"set module\.teacher_forcing\.steps, or trainer\.max_steps"):
        LinearDecay(floor=0.0, steps=None)


# ---- inputs


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9])
def test_gold_inputs_have_their_probability_at_every_position(
    probability: float, tiny_model: Build, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, length, draws = 50, 8, 40
    tokens = torch.full((rows, length), 5)
    batch = Batch.without_padding(tokens[:, :2], tokens, tokens)
    module = build_module(tiny_model("rnn"), tokenizer, teacher_forcing=probability)
    drawn: list[Tensor] = []

    def keep(tgt_in: Tensor, memory: Memory, is_gold: Tensor) -> Tensor:
        drawn.append(is_gold.float())
        return tgt_in

    monkeypatch.setattr(module.model, "mix_inputs", keep)
    for seed in range(draws):
        torch.manual_seed(seed)
        module._decoder_inputs(batch)
    deviation = (probability * (1 - probability) / (rows * draws)) ** 0.5
    by_position = torch.stack(drawn).mean((0, 1))
    assert by_position.tolist() == pytest.approx([probability] * length, abs=4.5 * deviation)
    # Tokens are drawn one by one, not whole sentences: sums over a sentence vary as independent draws do.
    variance = torch.stack(drawn).sum(2).var().item()
    assert variance == pytest.approx(length * probability * (1 - probability), rel=0.15)


def test_a_schedule_is_asked_for_the_optimizer_step(
    tiny_model: Build, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build_module(tiny_model("rnn"), tokenizer, teacher_forcing=LinearDecay(floor=0.0, steps=4))
    monkeypatch.setattr(type(module), "global_step", property(lambda _: 3))
    assert callable(module.options.teacher_forcing)
    assert module.options.teacher_forcing(module.global_step) == 0.25
    batch = random_batch()
    assert module._decoder_inputs(batch) is not batch.tgt_in
    monkeypatch.setattr(type(module), "global_step", property(lambda _: 0))
    assert module._decoder_inputs(batch) is batch.tgt_in


# ---- loss


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", [torch.float64, torch.bfloat16])
def test_the_gradient_is_that_of_the_pass_on_the_mixed_inputs(
    family: str, precision: torch.dtype, tiny_model: Build, tokenizer: Tokenizer
) -> None:
    """In bf16 too, where autocast must not reuse weights that the first pass cast without a gradient."""
    model, batch = tiny_model(family), random_batch()
    mixed_precision = precision == torch.bfloat16
    if mixed_precision:
        model = model.float()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed_precision):
        sampled = build_module(model, tokenizer, teacher_forcing=0.5)
        torch.manual_seed(3)
        inputs = sampled._decoder_inputs(batch)
        assert not torch.equal(inputs, batch.tgt_in)
        loss, gradients = loss_and_gradients(sampled, batch, seed=3)
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed_precision):
        plain = build_module(model, tokenizer)
        expected, expected_gradients = loss_and_gradients(plain, replace(batch, tgt_in=inputs), seed=3)
    assert torch.equal(loss, expected)
    assert all(map(torch.equal, gradients, expected_gradients))


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_no_loss(family: str, tiny_model: Build, tokenizer: Tokenizer) -> None:
    model, batch = tiny_model(family), random_batch()
    module = build_module(model, tokenizer, teacher_forcing=0.0)
    longer = [F.pad(part, (0, 3), value=PAD) for part in (batch.tgt_in, batch.tgt_out)]
    positions = (longer[1].flatten() != PAD).nonzero()[:, 0]
    padded = replace(batch, tgt_in=longer[0], tgt_out=longer[1], tgt_positions=(positions,))
    torch.testing.assert_close(module.summed_loss(padded), module.summed_loss(batch))


@pytest.mark.parametrize("family", FAMILIES)
def test_both_passes_of_r_drop_have_the_same_inputs(
    family: str, tiny_model: Build, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = tiny_model(family).train(), random_batch()
    module = build_module(model, tokenizer, alpha=2.0, teacher_forcing=0.0)
    seen: list[Tensor] = []
    decode_hidden = module.decode_hidden
    monkeypatch.setattr(
        module, "decode_hidden", lambda *inputs, **kw: seen.append(inputs[2]) or decode_hidden(*inputs, **kw)
    )
    loss, _ = module.summed_loss(batch)
    assert loss.isfinite()
    (inputs,) = seen
    assert torch.equal(inputs[::2], inputs[1::2])
    assert not torch.equal(inputs[::2], batch.tgt_in)
