"""The loss against its formula in float64, and its gradient against torch's own."""

import math
from collections.abc import Sequence
from itertools import permutations

import pytest
import torch
import torch.nn.functional as F

from heed.kernels.loss import CHUNK_BYTES
from heed.models.seq2seq import DecoderHidden
from heed.symbols import PAD


def given(logits: torch.Tensor) -> DecoderHidden:
    """An output layer that has these logits."""
    return DecoderHidden(logits, torch.eye(logits.shape[-1], dtype=logits.dtype))


def positions(target: torch.Tensor) -> torch.Tensor:
    """The positions of all tokens but padding."""
    return (target.flatten() != PAD).nonzero()[:, 0]


def interleaved(*passes: torch.Tensor) -> torch.Tensor:
    """Two passes with the rows of each sentence side by side."""
    return torch.stack(passes, 1).flatten(0, 1)


def in_full(
    passes: Sequence[torch.Tensor],
    layer: Sequence[torch.Tensor],
    target: torch.Tensor,
    *,
    label_smoothing: float,
    r_drop: float = 0.0,
) -> torch.Tensor:
    """The loss of one pass, or with R-Drop of two, by torch's own functions, differentiated by torch."""
    real = target != PAD
    logits = [F.linear(each[real], *layer) for each in passes]
    entropies = [
        F.cross_entropy(each, target[real], label_smoothing=label_smoothing, reduction="sum") for each in logits
    ]
    log_ps = [each.log_softmax(-1) for each in logits]
    divergences = [F.kl_div(b, a, log_target=True, reduction="sum") for a, b in permutations(log_ps, 2)]
    return sum(entropies) / len(passes) + r_drop * sum(divergences) / 4


@pytest.mark.parametrize("chunk", [8 * 17, 3 * 8 * 17, 2**24])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_gradients_equal_torchs(
    chunk: int, label_smoothing: float, biased: bool, r_drop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHUNK_BYTES, "cpu", chunk)
    shapes = ((17, 7), *([(17,)] if biased else []), *[(3, 5, 7)] * (2 if r_drop else 1))
    parts = [torch.randn(*shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    layer, passes = parts[: 1 + biased], parts[1 + biased :]
    target = torch.randint(1, 17, (3, 5))
    target[0, 2:] = PAD
    output = DecoderHidden(interleaved(*passes), *layer)
    loss, nll = output.loss(target, positions(target), label_smoothing=label_smoothing, r_drop=r_drop)
    reference = in_full(passes, layer, target, label_smoothing=label_smoothing, r_drop=r_drop)
    torch.testing.assert_close((loss, nll), (reference, in_full(passes, layer, target, label_smoothing=0.0)))
    scale = torch.rand((), dtype=torch.float64)
    ours, torchs = (torch.autograd.grad(of * scale, parts) for of in (loss, reference))
    torch.testing.assert_close(ours, torchs)


def test_in_bf16_the_sums_are_exact() -> None:
    states, table = torch.randn(40, 16, requires_grad=True), torch.randn(500, 16, requires_grad=True)
    target = torch.randint(4, 500, (40,))
    with torch.autocast("cpu", torch.bfloat16):
        ours = DecoderHidden(states, table).loss(target, positions(target), label_smoothing=0.1)[0]
    low = [part.to(torch.bfloat16).double().detach().requires_grad_() for part in (states, table)]
    reference = F.cross_entropy(F.linear(*low).bfloat16().double(), target, label_smoothing=0.1, reduction="sum")
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), reference, rtol=1e-4, atol=0)
    for one, other in zip(torch.autograd.grad(ours, (states, table)), torch.autograd.grad(reference, low), strict=True):
        assert one.dtype == torch.float32
        assert (one.double() - other).norm() < 0.01 * other.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_all_but_impossible_costs_what_it_costs(dtype: torch.dtype) -> None:
    """e^-20 is nothing in fp16."""
    logits = torch.tensor([[20.0, 0.0, 20.0]], dtype=torch.float32, requires_grad=True)
    output = DecoderHidden(logits, torch.eye(3, dtype=torch.float32))
    with torch.autocast("cpu", dtype):
        loss, nll = output.loss(torch.tensor([1]), torch.tensor([0]), label_smoothing=0.0)
    torch.testing.assert_close(nll.item(), 20 + math.log(2), rtol=1e-3, atol=0)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.tensor([[0.5, -1.0, 0.5]], dtype=torch.float32))


@pytest.mark.parametrize("logit", [50.0, 90.0, 5000.0])
def test_evaluation_is_exact_where_probabilities_vanish(logit: float) -> None:
    """e^-90 is nothing in fp32: the loss of a model without norms that has diverged."""
    output = DecoderHidden(torch.tensor([[logit, 0.0, logit], [0.0, 1.0, 0.0]]), torch.eye(3))
    with torch.no_grad():
        _, nll = output.loss(torch.tensor([1, 1]), torch.tensor([0, 1]), label_smoothing=0.0)
    expected = logit + math.log(2) - math.log(math.e / (math.e + 2))
    torch.testing.assert_close(nll.item(), expected, rtol=1e-6, atol=0)


def test_gradients_are_not_silently_wrong_the_second_time() -> None:
    logits = torch.randn(3, 17, requires_grad=True)
    loss, _ = given(logits).loss(torch.tensor([4, 5, PAD]), torch.tensor([0, 1]), label_smoothing=0.1)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_in_bf16_two_passes_are_as_exact_as_torchs_own() -> None:
    one, table = torch.randn(400, 16, requires_grad=True), torch.randn(500, 16, requires_grad=True)
    other = (one + torch.randn_like(one) / 4).detach().requires_grad_()
    target = torch.randint(4, 500, (400,))
    parts = (one, other, table)
    with torch.autocast("cpu", torch.bfloat16):
        ours, _ = DecoderHidden(torch.stack((one, other)), table).loss(
            target[None], positions(target), label_smoothing=0.1, r_drop=5.0
        )
        torchs = in_full((one, other), [table], target, label_smoothing=0.1, r_drop=5.0)
    exact_parts = [part.double().detach().requires_grad_() for part in parts]
    exact = in_full((exact_parts[0], exact_parts[1]), exact_parts[2:], target, label_smoothing=0.1, r_drop=5.0)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), exact, rtol=1e-3, atol=0)
    gradients = (torch.autograd.grad(*of) for of in ((ours, parts), (torchs, parts), (exact, exact_parts)))
    for mine, theirs, right in zip(*gradients, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - right).norm() < 1.1 * (theirs - right).norm() < 0.05 * right.norm()


def test_only_padding_costs_nothing() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    target = torch.full((2, 3), PAD)
    loss, nll = given(logits).loss(target, positions(target), label_smoothing=0.1)
    loss.backward()
    assert loss.item() == nll.item() == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))
