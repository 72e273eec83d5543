"""Packed linear layers compute what the others compute."""

import pickle
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from heed.kernels.packing import SMALL, Packed, packed
from heed.layers.embedding import TokenEmbedding

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN's linear layers"
)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=torch.float32))


@pytest.mark.parametrize("shape", [(1, 7), (3, 1, 7), (2, 5, 4, 7), (0, 7)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("width", [11, SMALL // 7 + 1])
def test_is_the_linear_map(shape: tuple[int, ...], biased: bool, width: int) -> None:
    weight, bias = parameter(width, 7), parameter(width) if biased else None
    packed = Packed(weight, bias).product
    x = torch.randn(*shape, dtype=torch.float32)
    scattered = torch.randn(*shape[:-1], 14, dtype=torch.float32)[..., ::2]
    with torch.inference_mode():
        for each in (x, scattered, x):
            assert_close(packed(each), F.linear(each, weight, bias), rtol=1e-5, atol=1e-5)


def test_learns_as_before() -> None:
    weight = parameter(11, 7)
    packed = Packed(weight, None).product
    assert_close(torch.autograd.grad(packed(torch.ones(2, 7, dtype=torch.float32)).sum(), weight)[0], 2 + 0 * weight)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> nn.Sequential:
    monkeypatch.setattr("heed.kernels.packing.has_slow_mkl", lambda: True)
    wide = SMALL // 96 + 1  # beyond which twelve states of eight numbers go to oneDNN
    return nn.Sequential(TokenEmbedding(vocab_size=13, d_model=8), nn.Linear(8, wide), nn.Linear(wide, 8)).float()


IDS = torch.arange(12).view(3, 4)


def answers(model: nn.Sequential) -> Tensor:
    table = model[0]
    assert isinstance(table, TokenEmbedding)
    with torch.inference_mode():
        return table.logits(model(IDS))


def packed_answers(model: nn.Sequential) -> Tensor:
    with packed(model):
        assert isinstance(model[1].forward.__self__, Packed)  # type: ignore[union-attr]
        return answers(model)


def test_a_model_is_what_it_was(model: nn.Sequential) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = answers(model)
    assert_close(packed_answers(model), expected)
    for module in model:
        assert not {"forward", "logits"} & vars(module).keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    for copied in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_close(packed_answers(copied), expected)


def _data_copy(model: nn.Sequential) -> None:
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn_like(parameter))


def _in_place(model: nn.Sequential) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-2)


def _by_numpy(model: nn.Sequential) -> None:
    for parameter in model.parameters():
        parameter.detach().numpy()[0] += 1


def _swap_columns(model: nn.Sequential) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data.flip(-1)


def _load(model: nn.Sequential, *, assign: bool) -> None:
    state = {name: torch.randn_like(tensor) for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=assign)


CHANGES: dict[str, Callable[[nn.Sequential], object]] = {
    ".data.copy_": _data_copy,
    "in place": _in_place,
    "a NumPy view": _by_numpy,
    "columns in another order": _swap_columns,
    "load_state_dict": lambda model: _load(model, assign=False),
    "load_state_dict, assign": lambda model: _load(model, assign=True),
    "there and back": lambda model: (model.double(), _in_place(model), model.float()),
}


@pytest.mark.parametrize("how", CHANGES)
def test_changed_weights_are_never_answered_for_by_old_ones(model: nn.Sequential, how: str) -> None:
    old = packed_answers(model)
    CHANGES[how](model)
    expected = answers(model)
    assert not torch.allclose(expected, old)
    assert_close(packed_answers(model), expected, rtol=1e-3, atol=1e-3)


def test_layouts_are_kept_while_weights_stay(model: nn.Sequential) -> None:
    def layout() -> Packed:
        with packed(model):
            return model[1].forward.__self__  # type: ignore[union-attr,return-value]

    assert layout() is layout()


def test_in_float64_nothing_is_packed(model: nn.Sequential) -> None:
    model.double()
    with packed(model):
        assert "forward" not in vars(model[1])
