"""Positions against their papers' formulas; their limits; counting on from where one stands."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from heed.errors import HeedError
from heed.layers.positions import (
    AbsolutePositions,
    Columns,
    PositionsConfig,
    PositionVectors,
    RelativePositions,
    SinusoidTable,
    T5Bias,
    rotation_factors,
    sin_and_cos,
)

B, N, D = 2, 7, 11
H, E = 3, 6

RELATIVE = ("rotary", "alibi", "relative")
relatives = pytest.mark.parametrize("kind", RELATIVE)


def absolute(kind: str, d_model: int = D, merge: str = "add") -> AbsolutePositions:
    code = kind in ("sinusoidal", "learned")
    config = PositionsConfig(kind=kind, merge=merge if code else None, max_length=13 if kind == "learned" else None)
    return config.absolute(d_model=d_model)


def relative(kind: str, *, causal: bool = True, num_heads: int = H, width: int = E) -> RelativePositions:
    config = PositionsConfig(kind=kind, merge=None, max_length=None)
    module = config.relative(num_heads=num_heads, width=width, causal=causal)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def sinusoid(position: int, column: int, d_model: int) -> float:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i + 1) = cos(same) (Vaswani et al. 2017, §3.5)."""
    angle = position / 10_000 ** (column // 2 * 2 / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


@pytest.mark.parametrize("start", [0, 1, 997])
@pytest.mark.parametrize("d_model", [1, 11])  # an even width is an exercise, and so is rotation
def test_sinusoids_of_an_odd_width_equal_the_paper(d_model: int, start: int) -> None:
    x = torch.randn(B, N, d_model)
    code = [[sinusoid(start + n, column, d_model) for column in range(d_model)] for n in range(N)]
    assert_close(absolute("sinusoidal", d_model)(x, start), x + torch.tensor(code))


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_positions_keep_their_precision_under_autocast(kind: str) -> None:
    """bf16 knows no integer between 256 and 258: positions are counted in float32 all the same."""
    torch.set_default_dtype(torch.float32)
    module = absolute(kind) if kind == "sinusoidal" else relative(kind)
    x = torch.ones(1, 1, N, E)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = module(x[0, ..., :1].expand(1, N, D), 997) if kind == "sinusoidal" else module.rotate(x, 997)  # type: ignore[operator]
    if kind == "sinusoidal":
        expected = torch.tensor([[1 + sinusoid(997 + n, column, D) for column in range(D)] for n in range(N)])
    else:
        expected = torch.tensor([turned([1.0] * E, 997 + n) for n in range(N)])
    assert_close(found.view(N, -1), expected, atol=2e-4, rtol=0)


@pytest.mark.parametrize("columns", [sin_and_cos, rotation_factors])
def test_the_table_does_not_depend_on_earlier_calls(columns: Columns) -> None:
    table = SinusoidTable(D, columns)
    with torch.inference_mode():
        table(0, N, torch.float64)
    weight = torch.randn(N, 1, requires_grad=True)
    for start, dtype in ((0, torch.float64), (2, torch.float64), (100, torch.float32), (3, torch.float64)):
        for found, expected in zip(table(start, N, dtype), SinusoidTable(D, columns)(start, N, dtype), strict=True):
            assert found.dtype == dtype
            assert torch.equal(found, expected)
            torch.autograd.grad((weight * found).sum(), weight)  # what inference mode wrote could not be saved for it


def test_sinusoids_are_not_weights() -> None:
    assert not absolute("sinusoidal").state_dict()


def test_learned_positions_are_the_table_s_rows() -> None:
    module, x = absolute("learned"), torch.randn(B, 5, D)
    (table,) = module.parameters()
    assert table.shape == (13, D)
    assert_close(module(x, 8), x + table[8:13])


@pytest.mark.parametrize(("start", "length"), [(0, 14), (13, 1), (8, 6)])
def test_learned_positions_refuse_a_longer_sentence_and_say_what_to_do(start: int, length: int) -> None:
    with pytest.raises(HeedError, match=r"14 tokens .* 13 positions .*max_length.*model/positions=sinusoidal"):
        absolute("learned")(torch.randn(B, length, D), start)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_concatenation_is_a_matrix_times_both(kind: str) -> None:
    """W [x; p], number by number; with W = [1 1] it is the sum."""
    module, x = absolute(kind, merge="concat"), torch.randn(B, N, D)
    assert isinstance(module, PositionVectors)
    assert module.merge is not None
    code, weight = module.vectors(4, N), module.merge.weight
    found = module(x, 4)
    for b in range(B):
        for n in range(N):
            pair = [*x[b, n].tolist(), *code[n].tolist()]
            expected = [sum(w * number for w, number in zip(row, pair, strict=True)) for row in weight.tolist()]
            assert_close(found[b, n], torch.tensor(expected))
    with torch.no_grad():
        weight.copy_(torch.eye(D).repeat(1, 2))
    assert_close(module(x, 4), x + code)


def test_positions_act_on_embeddings_or_inside_attention_and_never_on_both() -> None:
    x = torch.randn(B, H, N, E)
    for kind in ("none", *RELATIVE):
        assert torch.equal(absolute(kind)(x[0], 5), x[0])
    for kind, merge, length in (("none", None, None), ("sinusoidal", "add", None), ("learned", "add", 13)):
        config = PositionsConfig(kind=kind, merge=merge, max_length=length)
        module = config.relative(num_heads=H, width=E, causal=True)
        assert torch.equal(module.rotate(x, 5), x)
        assert module.bias(N, N) is None


def turned(vector: list[float], position: int) -> list[float]:
    """R_position · vector, one 2×2 rotation after another (Su et al. 2021, eq. 15); pairs (i, i + E/2)."""
    result, half = [0.0] * len(vector), len(vector) // 2
    for i in range(half):
        angle = position * 10_000 ** (-2 * i / len(vector))
        a, b = vector[i], vector[i + half]
        result[i] = a * math.cos(angle) - b * math.sin(angle)
        result[i + half] = a * math.sin(angle) + b * math.cos(angle)
    return result


def t5_bucket(relative_position: int, *, bidirectional: bool) -> int:
    """The function of Raffel et al.'s code, on one number: 32 buckets, logarithmic up to 128."""
    buckets, result, n = 32, 0, -relative_position
    if bidirectional:
        buckets //= 2
        result += buckets * (n < 0)
        n = abs(n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return result + n
    return result + min(exact + int(math.log(n / exact) / math.log(128 / exact) * (buckets - exact)), buckets - 1)


@given(start=st.integers(0, 5000), shift=st.integers(0, 5000), seed=st.integers(0, 2**32))
def test_rotation_keeps_norms_and_its_products_know_distances_only(start: int, shift: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rotary = relative("rotary")
    query, key = torch.randn(2, 1, 1, N, E, generator=draw)
    rotated_query = rotary.rotate(query, start)
    assert_close(rotated_query.norm(dim=-1), query.norm(dim=-1))
    scores = rotated_query @ rotary.rotate(key, start).transpose(2, 3)
    moved = rotary.rotate(query, start + shift) @ rotary.rotate(key, start + shift).transpose(2, 3)
    assert_close(moved, scores, atol=1e-9, rtol=0)


@pytest.mark.parametrize("num_heads", [1, 3, 8])
def test_linear_bias_equals_the_paper(num_heads: int) -> None:
    """Slopes 2^(−8/H), its square, its cube, … (Press et al. 2022, §3): for 8 heads 1/2, 1/4, … 1/256."""
    bias = relative("alibi", num_heads=num_heads).bias(N, N)
    assert bias is not None
    for head in range(num_heads):
        slope = (2 ** (-8 / num_heads)) ** (head + 1)
        for i in range(N):
            for j in range(N):
                assert bias[0, head, i, j].item() == pytest.approx(-slope * abs(i - j))


@pytest.mark.parametrize("causal", [True, False])
def test_learned_bias_is_the_table_at_the_paper_s_buckets(causal: bool) -> None:
    module, length = relative("relative", causal=causal), 300
    assert isinstance(module, T5Bias)
    bias = module.bias(length, length)
    assert bias is not None
    for i in range(0, length, 23):
        for j in range(length):
            row = t5_bucket(j - i, bidirectional=not causal)
            assert torch.equal(bias[0, :, i, j], module.weight[row])
    used = {T5Bias.bucket(distance, causal=causal) for distance in range(-200, 201)}
    assert used == set(range(32)) - ({16} if not causal else set())


@relatives
@pytest.mark.parametrize("causal", [True, False])
@given(queries=st.integers(1, 9), before=st.integers(0, 200), more=st.integers(1, 200))
def test_bias_knows_distances_only(kind: str, causal: bool, queries: int, before: int, more: int) -> None:
    """The same keys and queries further on in a sentence: the same numbers. A step: the last row of the whole."""
    module, keys = relative(kind, causal=causal), queries + before
    bias, moved = module.bias(queries, keys), module.bias(queries, keys + more)
    if kind == "rotary":
        assert bias is None
        return
    assert bias is not None
    assert moved is not None
    assert bias.shape == (1, H, queries, keys)
    assert torch.equal(moved[..., more:], bias)
    step = module.bias(1, keys)
    assert step is not None
    assert torch.equal(step, bias[:, :, -1:])
