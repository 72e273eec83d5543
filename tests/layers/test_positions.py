"""Positions against the paper's formula; their limits; counting on from where one stands."""

import math

import pytest
import torch
from torch.testing import assert_close

from heed.errors import HeedError
from heed.layers.positions import Positions, PositionsConfig

B, N, D = 2, 7, 11


def positions(kind: str, d_model: int = D) -> Positions:
    return PositionsConfig(kind=kind, max_length=13 if kind == "learned" else None).build(d_model)


def sinusoid(position: int, column: int, d_model: int) -> float:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i + 1) = cos(same) (Vaswani et al. 2017, §3.5)."""
    angle = position / 10_000 ** (column // 2 * 2 / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


@pytest.mark.parametrize("start", [0, 1, 997])
@pytest.mark.parametrize("d_model", [1, 2, 11, 12])
def test_sinusoids_equal_the_paper(d_model: int, start: int) -> None:
    x = torch.randn(B, N, d_model)
    code = [[sinusoid(start + n, column, d_model) for column in range(d_model)] for n in range(N)]
    assert_close(positions("sinusoidal", d_model)(x, start), x + torch.tensor(code))


def test_sinusoids_keep_their_precision_under_autocast() -> None:
    """bf16 knows no integer between 256 and 258: positions are counted in float32 all the same."""
    torch.set_default_dtype(torch.float32)
    module = positions("sinusoidal")
    x = torch.zeros(1, N, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        code = module(x, 997)
    expected = torch.tensor([[sinusoid(997 + n, column, D) for column in range(D)] for n in range(N)])
    assert_close(code[0], expected, atol=1e-4, rtol=0)


def test_sinusoids_are_not_weights() -> None:
    assert not positions("sinusoidal").state_dict()


def test_learned_positions_are_the_table_s_rows() -> None:
    module, x = positions("learned"), torch.randn(B, 5, D)
    (table,) = module.parameters()
    assert table.shape == (13, D)
    assert_close(module(x, 8), x + table[8:13])


@pytest.mark.parametrize(("start", "length"), [(0, 14), (13, 1), (8, 6)])
def test_learned_positions_refuse_a_longer_sentence_and_say_what_to_do(start: int, length: int) -> None:
    with pytest.raises(HeedError, match=r"14 tokens .* 13 positions .*max_length.*model/positions=sinusoidal"):
        positions("learned")(torch.randn(B, length, D), start)


def test_none_adds_nothing() -> None:
    x = torch.randn(B, N, D)
    assert torch.equal(positions("none")(x, 5), x)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "none"])
def test_one_by_one_equals_all_at_once(kind: str) -> None:
    module, x = positions(kind), torch.randn(B, N, D)
    steps = [module(x[:, t : t + 1], t) for t in range(N)]
    assert_close(torch.cat(steps, 1), module(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("kind", "max_length", "names"),
    [
        ("rotray", None, r"model\.positions\.kind=rotray .*sinusoidal, learned or none"),
        ("learned", None, r"model\.positions\.max_length=None .*model\.positions\.kind=learned"),
        ("sinusoidal", 13, r"model\.positions\.max_length=13 .*model\.positions\.kind=sinusoidal"),
        ("none", 13, r"model\.positions\.max_length=13 .*model\.positions\.kind=none"),
    ],
)
def test_contradictions_are_refused(kind: str, max_length: int | None, names: str) -> None:
    with pytest.raises(HeedError, match=names):
        PositionsConfig(kind=kind, max_length=max_length)
