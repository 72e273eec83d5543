"""Every kernel agrees with its formula: values and gradients, odd shapes, every dtype it claims."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from heed import functional, kernels
from heed.functional.recurrence import CELLS
from heed.layers.recurrence import RecurrentLayer

FLOATS = (torch.float64, torch.float32, torch.bfloat16)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 4e-2}
"""Absolute, for values of about 1."""


@dataclass(frozen=True)
class Case:
    """A call of a function: random inputs that need gradients, and the function applied to them."""

    shapes: tuple[tuple[int, ...], ...]
    call: Callable[..., Any]
    """(module, *inputs) → a tensor, or several."""
    dtypes: tuple[torch.dtype, ...] = FLOATS


def mask(*shape: int) -> Tensor:
    """A random mask whose first row has nothing to attend to."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float32) < 0.7
    drawn[..., 0, :] = False
    return drawn


def tokens(size: int, vocab: int) -> Tensor:
    return torch.randint(vocab, (size,), generator=torch.Generator().manual_seed(5))


def attend(T: int, S: int, *, rows: int = 2, bias: bool = False, visible: Any = "drawn", **options: Any) -> Case:
    shapes: tuple[tuple[int, ...], ...] = ((rows, 3, T, 5), (rows, 3, S, 5), (rows, 3, S, 7))
    if visible == "drawn":
        visible = mask(rows, 1, T, S)
    if not bias:
        return Case(shapes, lambda room, q, k, v: room.attend(q, k, v, visible, **options)[0])
    call = lambda room, q, k, v, b: room.attend(q, k, v, visible, bias=b, **options)[0]  # noqa: E731
    return Case((*shapes, (1, 3, T, S)), call)


def repeat(room: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A recurrence of five steps."""
    step = room.repeated_linear(weight, bias)
    states = []
    for _ in range(5):
        x = torch.tanh(step(x))
        states.append(x)
    return torch.stack(states)


def recur(cell: str, *, lengths: Tensor | None = None, steps: int = 6) -> Case:
    """The gradients of the weights are compared in tests/layers/test_recurrence.py."""
    layer = RecurrentLayer(cell, input_width=7, width=11).layer

    def call(room: Any, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        output, after = room.recur(CELLS[cell], copy.deepcopy(layer).to(x.dtype), x, state, lengths=lengths)
        return (output, *after)

    return Case(((3, steps, 7), *[(3, 11)] * CELLS[cell].parts), call, (torch.float64, torch.float32))


def loss(*, rows: int, smoothing: float, bias: bool) -> Case:
    target = tokens(rows, 17)

    def call(room: Any, hidden: Tensor, weight: Tensor, *rest: Tensor) -> Tensor:
        return (
            room.cross_entropy(hidden, weight, rest[0] if rest else None, target, label_smoothing=smoothing)[0] / rows
        )

    return Case(((rows, 7), (17, 7), *([(17,)] if bias else [])), call, (torch.float64, torch.float32))


def r_drop(*, rows: int, smoothing: float, bias: bool) -> Case:
    target = tokens(rows, 17)

    def call(room: Any, hidden: Tensor, weight: Tensor, *rest: Tensor) -> Tensor:
        b = rest[0] if rest else None
        loss, _ = room.r_drop_loss(hidden, weight, b, target, label_smoothing=smoothing, alpha=3.0)
        return loss / rows

    return Case(((2, rows, 7), (17, 7), *([(17,)] if bias else [])), call, (torch.float64, torch.float32))


CASES: dict[str, Case] = {
    "attend: one query, few rows": attend(1, 7),
    "attend: one query, many rows": attend(1, 7, rows=53),
    "attend: nine queries, many rows": attend(9, 7, rows=53),
    "attend: biased": attend(5, 7, bias=True),
    "attend: biased, one query, many rows": attend(1, 7, rows=53, bias=True),
    "attend: unscaled": attend(5, 7, scaled=False),
    "attend: more keys than the plain formula takes in bf16": attend(3, 263, need_weights=False),
    "attend: no mask": attend(1, 7, rows=53, visible=None),
    "attend: fused, no mask": attend(5, 7, visible=None, need_weights=False),
    "attend: fused and biased, no mask": attend(5, 7, bias=True, visible=None, need_weights=False),
    "attend: causal": attend(5, 5, visible="causal"),
    "attend: fused, causal": attend(5, 5, visible="causal", need_weights=False),
    "attend: fused, causal, with a past": attend(5, 7, visible="causal", need_weights=False),
    "attend: fused and biased, causal": attend(5, 5, bias=True, visible="causal", need_weights=False),
    "attend: one query, causal": attend(1, 7, rows=53, visible="causal"),
    "attend: fused": attend(5, 7, need_weights=False),
    "attend: fused and biased": attend(5, 7, bias=True, need_weights=False),
    "masked_softmax": Case(((2, 3, 5, 7),), lambda room, x: room.masked_softmax(4 * x, mask(2, 1, 5, 7))),
    "masked_softmax: one key": Case(((3, 5, 1),), lambda room, x: room.masked_softmax(x, mask(3, 5, 1))),
    "prepared_linear": Case(
        ((2, 3, 7), (11, 7), (11,), (5, 7), (5,)), lambda room, x, *maps: room.prepared_linear(maps[:2], maps[2:])(x)
    ),
    "prepared_linear: no bias": Case(((0, 7), (11, 7)), lambda room, x, w: room.prepared_linear((w, None))(x)),
    "repeated_linear": Case(((3, 1, 7), (7, 7), (7,)), repeat),
    "repeated_linear: no bias": Case(((3, 7), (7, 7)), lambda room, x, w: room.repeated_linear(w)(x)),
    "cast_for_matmul": Case(((3, 5),), lambda room, x: room.cast_for_matmul(x)),
    **{f"recur: {cell}": recur(cell) for cell in CELLS},
    **{f"recur: {cell}, one step": recur(cell, steps=1) for cell in CELLS},
    **{f"recur: {cell}, padded": recur(cell, lengths=torch.tensor([6, 1, 4])) for cell in CELLS},
    **{
        f"{name}: rows={rows}, smoothing={smoothing}, bias={bias}": make(rows=rows, smoothing=smoothing, bias=bias)
        for name, make in (("cross_entropy", loss), ("R-Drop", r_drop))
        for rows, smoothing, bias in ((1, 0.0, True), (13, 0.1, False), (13, 0.1, True))
    },
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_values_and_gradients_agree(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    if dtype not in case.dtypes:
        pytest.skip("not claimed")
    inputs = [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in case.shapes]
    # The formula in float64 is the reference: in bf16 the kernel may be nearer to it than the formula in bf16.
    exact = [x.detach().double().requires_grad_() for x in inputs]
    ours, expected = case.call(kernels, *inputs), case.call(functional, *exact)
    ours, expected = (each if isinstance(each, tuple) else (each,) for each in (ours, expected))
    tolerance = TOLERANCE[dtype]
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine.dtype == dtype or mine.dtype == torch.float32
        assert_close(mine.double(), theirs, rtol=tolerance, atol=tolerance)
    upstream = [torch.randn_like(each) for each in expected]
    gradients = torch.autograd.grad(ours, inputs, [u.to(o.dtype) for u, o in zip(upstream, ours, strict=True)])
    for mine, theirs in zip(gradients, torch.autograd.grad(expected, exact, upstream), strict=True):
        scale = max(1.0, theirs.abs().max().item() if theirs.numel() else 1.0)
        assert_close(mine.double(), theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rows", [1, 7, 60])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 4099])
@pytest.mark.parametrize("k", [1, 5, 12])
@pytest.mark.parametrize("ties", [False, True])
def test_topk_agrees(dtype: torch.dtype, rows: int, length: int, k: int, ties: bool) -> None:
    x = torch.randn(rows, length, dtype=dtype)
    x = x.round() if ties else x
    for mine, theirs in zip(kernels.stable_topk(x, k), functional.stable_topk(x, k), strict=True):
        assert torch.equal(mine, theirs)


def test_plain_uses_the_formulas_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside plain() every kernel returns what the function of the same name returns, bit for bit."""
    for name, case in CASES.items():
        inputs = [torch.randn(shape, requires_grad=True) for shape in case.shapes]
        with kernels.plain():
            ours = case.call(kernels, *inputs)
        expected = case.call(functional, *inputs)
        ours, expected = (each if isinstance(each, tuple) else (each,) for each in (ours, expected))
        for mine, theirs in zip(ours, expected, strict=True):
            assert torch.equal(mine, theirs), name
            assert type(mine.grad_fn) is type(theirs.grad_fn), name
    with kernels.plain():
        torch.manual_seed(1)
        ours = kernels.dropout(torch.ones(9), 0.5)
    torch.manual_seed(1)
    assert torch.equal(ours, F.dropout(torch.ones(9), 0.5))


def test_plain_ends_with_its_context() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    everything = torch.ones(3, 5, dtype=torch.bool)
    with kernels.plain(), kernels.plain():
        pass
    assert "MaskedSoftmax" in str(kernels.masked_softmax(x, everything).grad_fn)
    with pytest.raises(ZeroDivisionError), kernels.plain():
        _ = 1 / 0
    assert "MaskedSoftmax" in str(kernels.masked_softmax(x, everything).grad_fn)


def test_both_modules_have_the_same_functions_and_signatures() -> None:
    for name in functional.__all__:
        formula, kernel = (str(inspect.signature(getattr(room, name))) for room in (functional, kernels))
        assert formula == kernel, name
    assert set(kernels.__all__) - set(functional.__all__) == {
        "plain",
        "WeightPacker",
        "dropout",
    }  # of dropout, torch has the formula
