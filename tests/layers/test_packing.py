"""Packed linear layers compute what the others compute."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from heed.layers.embedding import TokenEmbedding
from heed.layers.packing import SMALL, Packed, pack

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


def test_a_model_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heed.layers.packing.leaves_mkl_behind", lambda: True)
    model = nn.Sequential(TokenEmbedding(vocab_size=13, d_model=8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).float()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ids = torch.randint(13, (3, 5))
    with torch.inference_mode():
        expected = model[0].logits(model(ids))
        pack(model)
        assert isinstance(model[1].forward.__self__, Packed)
        assert_close(model[0].logits(model(ids)), expected)
    assert {name: tensor.tolist() for name, tensor in model.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in before.items()
    }
