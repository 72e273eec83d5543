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
from heed.kernels.linear import MIN_ONEDNN_PRODUCTS, PackedWeight

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and has_onednn_linear()), reason="this torch was built without MKL or oneDNN"
)


@pytest.fixture(autouse=True, params=[0, 5, sys.maxsize], ids=["MKL", "oneDNN for five rows", "oneDNN"])
def max_onednn_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are computed as on another CPU."""
    monkeypatch.setattr("heed.kernels.linear.max_onednn_rows", lambda: request.param)


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


def _data_copy(weight: nn.Parameter) -> None:
    weight.data.copy_(torch.randn_like(weight))


def _in_place(weight: nn.Parameter) -> None:
    with torch.no_grad():
        weight.mul_(-2)


def _by_numpy(weight: nn.Parameter) -> None:
    weight.detach().numpy()[0] += 1


def _swap_columns(weight: nn.Parameter) -> None:
    weight.data = weight.data.flip(-1)


def _there_and_back(weight: nn.Parameter) -> None:
    weight.data = weight.data.double()
    _in_place(weight)
    weight.data = weight.data.float()


CHANGES = [_data_copy, _in_place, _by_numpy, _swap_columns, _there_and_back]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_packed_again(change: Callable[[nn.Parameter], object]) -> None:
    packer, weight = WeightPacker(), parameter(MIN_ONEDNN_PRODUCTS // 7 + 1, 7)
    x = torch.randn(3, 4, 7, dtype=torch.float32)
    with torch.inference_mode():
        old = packer.prepared_linear((weight, None))(x)
    change(weight)
    with torch.inference_mode():
        linear = packer.prepared_linear((weight, None))
        assert packed_weight(linear)
        assert not torch.allclose(linear(x), old)
        assert_close(linear(x), F.linear(x, weight), rtol=1e-5, atol=1e-5)


def test_weights_are_not_changed() -> None:
    weight = parameter(11, 7)
    before, strides = weight.clone(), weight.stride()
    with torch.inference_mode():
        WeightPacker().prepared_linear((weight, None))(torch.randn(3, 7, dtype=torch.float32))
    assert torch.equal(weight, before)
    assert weight.stride() == strides


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


def test_what_is_not_packed() -> None:
    packer = WeightPacker()
    with torch.inference_mode():
        assert packed_weight(packer.prepared_linear((parameter(11, 7).double(), None))) is None
        with kernels.plain():
            assert packed_weight(packer.prepared_linear((parameter(11, 7), None))) is None
