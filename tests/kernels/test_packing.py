"""Packed weights give the results of the weights as they are."""

import gc
import pickle
import sys
import weakref
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from heed.compat import has_onednn_linear
from heed.kernels import linear, packed_weights, prepared_linear
from heed.kernels.packing import MIN_ONEDNN_PRODUCTS, PackedWeight, find_packed
from heed.layers.embedding import TokenEmbedding
from heed.layers.linear import Linear

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and has_onednn_linear()), reason="this torch was built without MKL or oneDNN"
)


@pytest.fixture(autouse=True, params=[0, 5, sys.maxsize], ids=["MKL", "oneDNN for five rows", "oneDNN"])
def max_onednn_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are computed as on another CPU."""
    monkeypatch.setattr("heed.kernels.packing.max_onednn_rows", lambda: request.param)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=torch.float32))


@pytest.mark.parametrize("shape", [(1, 7), (3, 1, 7), (2, 5, 4, 7), (0, 7)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("width", [11, MIN_ONEDNN_PRODUCTS // 7 + 1])
def test_is_the_linear_map(shape: tuple[int, ...], biased: bool, width: int) -> None:
    weight, bias = parameter(width, 7), parameter(width) if biased else None
    x = torch.randn(*shape, dtype=torch.float32)
    strided = torch.randn(*shape[:-1], 14, dtype=torch.float32)[..., ::2]
    with torch.inference_mode(), packed_weights():
        for each in (x, strided, x):
            assert_close(linear(each, weight, bias), F.linear(each, weight, bias), rtol=1e-5, atol=1e-5)
        assert find_packed(weight) is not None


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("width", [11, MIN_ONEDNN_PRODUCTS // 7 + 1])
def test_concatenated_weights_are_packed(biased: bool, width: int) -> None:
    maps = [(parameter(n, 7), parameter(n) if biased else None) for n in (width, 3)]
    x = torch.randn(2, 5, 7, dtype=torch.float32)
    for _ in range(2):
        with torch.inference_mode(), packed_weights():
            found = prepared_linear(*maps)(x)
            assert_close(found, torch.cat([F.linear(x, *each) for each in maps], -1), rtol=1e-5, atol=1e-5)
            assert find_packed(*(weight for weight, _ in maps)) is not None
        maps[1][0].data.mul_(-2)  # each of the weights is compared


def test_gradients_are_computed_without_packing() -> None:
    weight, ones = parameter(11, 7), torch.ones(2, 7, dtype=torch.float32)
    with packed_weights():
        assert_close(torch.autograd.grad(linear(ones, weight).sum(), weight)[0], 2 + 0 * weight)


@pytest.fixture
def model() -> nn.Sequential:
    wide = MIN_ONEDNN_PRODUCTS // 96 + 1  # above which twelve states of eight numbers go to oneDNN
    return nn.Sequential(TokenEmbedding(vocab_size=13, d_model=8), Linear(8, wide), Linear(wide, 8)).float()


IDS = torch.arange(12).view(3, 4)


def answers(model: nn.Sequential) -> Tensor:
    table = model[0]
    assert isinstance(table, TokenEmbedding)
    with torch.inference_mode():
        return table.logits(model(IDS))


def packed_answers(model: nn.Sequential) -> Tensor:
    with packed_weights():
        found = answers(model)
        assert all(find_packed(weight) for weight in (model[0].weight, model[1].weight, model[2].weight))
        return found


def test_the_model_is_not_changed(model: nn.Sequential) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = answers(model)
    assert_close(packed_answers(model), expected)
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
def test_changed_weights_are_packed_again(model: nn.Sequential, how: str) -> None:
    old = packed_answers(model)
    CHANGES[how](model)
    expected = answers(model)
    assert not torch.allclose(expected, old)
    assert_close(packed_answers(model), expected, rtol=1e-3, atol=1e-3)


def test_packed_weights_are_kept_between_contexts(model: nn.Sequential) -> None:
    def packed() -> PackedWeight | None:
        with torch.inference_mode(), packed_weights():
            return find_packed(model[1].weight)

    assert packed() is packed()


def test_packed_weights_are_freed_with_their_weight() -> None:
    weight = parameter(11, 7)
    with torch.inference_mode(), packed_weights():
        packed = weakref.ref(find_packed(weight))
    assert packed() is not None
    del weight
    gc.collect()
    assert packed() is None


def test_float64_is_not_packed(model: nn.Sequential) -> None:
    model.double()
    with torch.inference_mode(), packed_weights():
        assert find_packed(model[1].weight) is None
        answers(model)


def test_nothing_is_packed_outside_the_context(model: nn.Sequential) -> None:
    with torch.inference_mode():
        assert find_packed(model[1].weight) is None
