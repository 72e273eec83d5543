"""Packed weights give the results of the weights as they are."""

import copy
import gc
import sys
import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from heed import kernels
from heed.compat import has_onednn_linear
from heed.kernels import WeightPacker
from heed.kernels.packing import MIN_ONEDNN_PRODUCTS, PackedWeight
from heed.layers.embedding import TokenEmbedding
from heed.layers.packed import packed_copy

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and has_onednn_linear()), reason="this torch was built without MKL or oneDNN"
)


@pytest.fixture(autouse=True, params=[0, 5, sys.maxsize], ids=["MKL", "oneDNN for five rows", "oneDNN"])
def max_onednn_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are computed as on another CPU."""
    monkeypatch.setattr("heed.kernels.packing.max_onednn_rows", lambda: request.param)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=torch.float32))


def packed_weight(linear_map: Callable[[Tensor], Tensor]) -> PackedWeight | None:
    """Return the packed weight of a linear map."""
    packed = getattr(linear_map.func, "__self__", None)  # type: ignore[attr-defined]
    return packed if isinstance(packed, PackedWeight) else None


@pytest.mark.parametrize("shape", [(1, 7), (3, 1, 7), (2, 5, 4, 7), (0, 7)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("width", [11, MIN_ONEDNN_PRODUCTS // 7 + 1])
def test_is_the_linear_map(shape: tuple[int, ...], biased: bool, width: int) -> None:
    weight, bias = parameter(width, 7), parameter(width) if biased else None
    x = torch.randn(*shape, dtype=torch.float32)
    strided = torch.randn(*shape[:-1], 14, dtype=torch.float32)[..., ::2]
    with torch.inference_mode():
        linear = WeightPacker().prepared_linear((weight, bias))
        assert packed_weight(linear)
        for each in (x, strided, x):
            assert_close(linear(each), F.linear(each, weight, bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("width", [11, MIN_ONEDNN_PRODUCTS // 7 + 1])
def test_concatenated_weights_are_packed(biased: bool, width: int) -> None:
    maps = [(parameter(n, 7), parameter(n) if biased else None) for n in (width, 3)]
    x, packer = torch.randn(2, 5, 7, dtype=torch.float32), WeightPacker()
    for _ in range(2):
        with torch.inference_mode():
            linear = packer.prepared_linear(*maps)
            assert packed_weight(linear)
            assert_close(linear(x), torch.cat([F.linear(x, *each) for each in maps], -1), rtol=1e-5, atol=1e-5)
        maps[1][0].data.mul_(-2)  # each of the weights is compared


@pytest.fixture
def model() -> nn.Sequential:
    wide = MIN_ONEDNN_PRODUCTS // 96 + 1  # above which twelve states of eight numbers go to oneDNN
    return nn.Sequential(TokenEmbedding(vocab_size=13, d_model=8), nn.Linear(8, wide), nn.Linear(wide, 8)).float()


IDS = torch.arange(12).view(3, 4)


def answers(model: nn.Sequential) -> Tensor:
    table = model[0]
    assert isinstance(table, TokenEmbedding)
    with torch.inference_mode():
        return table.logits(model(IDS))


def packed_answers(model: nn.Sequential, packer: WeightPacker) -> Tensor:
    copied = packed_copy(model, packer)
    found = answers(copied)
    assert all(packed_weight(module.product) for module in copied)  # type: ignore[operator]
    return found


def test_the_model_is_not_changed(model: nn.Sequential) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = answers(model)
    assert_close(packed_answers(model, WeightPacker()), expected)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert [type(module) for module in model] == [TokenEmbedding, nn.Linear, nn.Linear]


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
    packer = WeightPacker()
    old = packed_answers(model, packer)
    CHANGES[how](model)
    expected = answers(model)
    assert not torch.allclose(expected, old)
    assert_close(packed_answers(model, packer), expected, rtol=1e-3, atol=1e-3)


def test_packed_weights_are_kept_as_long_as_their_weight() -> None:
    weight, packer = parameter(11, 7), WeightPacker()
    with torch.inference_mode():
        first, second = (packed_weight(packer.prepared_linear((weight, None))) for _ in range(2))
        assert first is second is not None
        assert packed_weight(copy.deepcopy(packer).prepared_linear((weight, None))) is not first
    packed = weakref.ref(first)
    del first, second
    assert packed() is not None
    del weight
    gc.collect()
    assert packed() is None


def test_what_is_not_packed(model: nn.Sequential) -> None:
    packer = WeightPacker()
    with torch.inference_mode():
        assert packed_weight(packer.prepared_linear((parameter(11, 7).double(), None))) is None
        with kernels.plain():
            assert packed_weight(packer.prepared_linear((parameter(11, 7), None))) is None


def test_modified_modules_are_called(model: nn.Sequential) -> None:
    called = []
    model[1].register_forward_hook(lambda *_: called.append(1))
    copied = packed_copy(model, WeightPacker())
    assert copied[1] is model[1]
    assert copied[2] is not model[2]
    answers(copied)
    assert called
    model.register_forward_hook(lambda *_: None)
    assert packed_copy(model, WeightPacker()) is model
