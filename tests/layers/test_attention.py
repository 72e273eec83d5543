"""Scaled dot-product and multi-head attention against torch's own, and against known answers."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from heed.errors import HeedError
from heed.functional import causal_mask
from heed.layers.attention import (
    HEAD_SCORES,
    Attention,
    CrossAttentionConfig,
    MultiHeadAttention,
    ParameterFreeAttention,
    SelfAttentionConfig,
)
from heed.layers.attention_scores import SCORES, ScoreOptions
from heed.layers.positions import PositionsConfig, RelativePositions, RotaryPositions
from tests.conftest import randomised

B, T, S, H, E, V = 2, 5, 7, 3, 11, 13
D = H * E

MASKS = {
    "everything": torch.ones(1, 1, 1, S, dtype=torch.bool),
    "padding": (torch.arange(S) < torch.tensor([[S], [3]]))[:, None, None],
    "past": causal_mask(S, S)[None, None, :T],
}


def attention(*, dropout: float = 0.0) -> MultiHeadAttention:
    positions = RelativePositions()
    module = MultiHeadAttention(d_model=D, num_heads=H, score="scaled_dot", dropout=dropout, positions=positions)
    return randomised(module, std=0.3)


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    assert isinstance(ours, MultiHeadAttention)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat((ours.query.weight, ours.key_value.weight)),
            "in_proj_bias": torch.cat((ours.query.bias, ours.key_value.bias)),
            "out_proj.weight": ours.output.weight,
            "out_proj.bias": ours.output.bias,
        }
    )


@pytest.mark.parametrize("kind", ["alibi", "relative"])
def test_all_paths_agree_under_autocast(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias in fp32 meets queries in bf16, in the formula and with or without the fused kernel."""
    torch.set_default_dtype(torch.float32)
    positions = PositionsConfig(kind=kind, merge=None, max_length=None).relative(num_heads=H, width=E, causal=True)
    ours = MultiHeadAttention(d_model=D, num_heads=H, score="scaled_dot", dropout=0.0, positions=positions)
    states = torch.randn(B, S, D)
    contexts = []
    for short, maps in ((S, True), (S, False), (S - 1, False)):
        monkeypatch.setattr("heed.kernels.attention.MAX_UNFUSED_KEYS", short)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            contexts.append(ours(states, ours.project(states), causal_mask(S, S)[None, None], maps=maps)[0])
    formula, short_way, fused = contexts
    assert torch.equal(short_way, formula)
    assert_close(fused, formula, atol=0.03, rtol=0)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("kind", ["everything", "padding", "past"])
def test_multi_head_equals_torch(kind: str, maps: bool, training: bool) -> None:
    ours = attention().train(training)
    states, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    mask = MASKS[kind]
    output, shown = ours(states, ours.project(memory), mask, maps=maps)
    hidden = ~mask.expand(B, H, T, S).flatten(0, 1)
    theirs = nn.MultiheadAttention(D, H, batch_first=True).eval()
    copy_attention(ours, theirs)
    expected, weights = theirs(states, memory, memory, attn_mask=hidden, average_attn_weights=False)
    assert_close(output, expected)
    if maps:
        assert_close(shown, weights)
    else:
        assert shown is None


@pytest.mark.parametrize("maps", [False, True])
def test_dropout_works_in_training_only(maps: bool) -> None:
    ours, states = attention(dropout=0.5), torch.randn(B, S, D)
    memory, mask = ours.project(states), MASKS["padding"]

    def output() -> Tensor:
        return ours(states, memory, mask, maps=maps)[0]

    assert_close(output(), output(), rtol=0, atol=0)
    ours.train()
    assert not torch.allclose(output(), output())


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_parameter_free_attention_equals_its_formula(score: str, maps: bool) -> None:
    """a_t = softmax(Xᵀ x_t), h_t = Σ_s a_t(s) x_s, number by number; the states are the last ones of the memory."""
    ours, memory = (
        ParameterFreeAttention(d_model=D, score=score, dropout=0.0, positions=RelativePositions()),
        torch.randn(B, S, D),
    )
    assert not list(ours.parameters())
    past = ours.project(memory[:, : S - T])
    first_rows = causal_mask(S, S)[None, None, :T]
    output, shown = ours(memory[:, -T:], ours.project(memory[:, -T:], past), first_rows, maps=maps)
    for b in range(B):
        for t in range(T):
            query = memory[b, S - T + t]
            seen = range(t + 1)
            scores = [sum((query * memory[b, s]).tolist()) / (D**0.5 if score == "scaled_dot" else 1) for s in seen]
            top = max(scores)
            total = sum(math.exp(score - top) for score in scores)
            weights = [math.exp(score - top) / total for score in scores]
            context = sum((weight * memory[b, s] for s, weight in zip(seen, weights, strict=True)), torch.zeros(D))
            assert_close(output[b, t], context)
            if maps:
                assert shown is not None
                assert_close(shown[b, 0, t, : t + 1], torch.tensor(weights))
    assert (shown is not None) == maps


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["rotary", "alibi", "relative"])
def test_relative_positions_act_where_the_papers_put_them(kind: str, causal: bool, maps: bool) -> None:
    """Rotary ones on queries and keys (and not on values), as complex numbers times e^(inθ); biases on the scores."""
    heads, width = 3, 4
    d_model = heads * width
    positions = PositionsConfig(kind=kind, merge=None, max_length=None).relative(
        num_heads=heads, width=width, causal=causal
    )
    ours = MultiHeadAttention(d_model=d_model, num_heads=heads, score="scaled_dot", dropout=0.0, positions=positions)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    states, mask = torch.randn(B, S, d_model), causal_mask(S, S) if causal else torch.ones(S, S, dtype=torch.bool)
    output, _ = ours(states, ours.project(states), mask[None, None], maps=maps)

    def split(x: Tensor) -> Tensor:
        return x.unflatten(2, (heads, width)).transpose(1, 2)

    def spun(x: Tensor) -> Tensor:
        theta = 10_000 ** (-torch.arange(0, width, 2) / width)
        spin = torch.polar(torch.ones(S, width // 2), torch.arange(S)[:, None] * theta)
        product = torch.complex(x[..., : width // 2], x[..., width // 2 :]) * spin
        return torch.cat((product.real, product.imag), -1)

    query, (key, value) = split(ours.query(states)), map(split, ours.key_value(states).chunk(2, -1))
    if kind == "rotary":
        query, key = spun(query), spun(key)
    scores = query @ key.transpose(2, 3) / width**0.5
    for i in range(S):
        for j in range(S):
            if kind == "alibi":
                scores[:, :, i, j] -= abs(i - j) * 2.0 ** (-8 / heads * torch.arange(1, heads + 1))
            elif kind == "relative":  # all within the exact buckets: 0 … 6 back, and 16 on, 1 … 6 ahead
                scores[:, :, i, j] += positions.weight[i - j if j <= i else 0 if causal else 16 + j - i]
    context = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value
    assert_close(output, ours.output(context.transpose(1, 2).flatten(2)))


def test_parameter_free_attention_passes_gradcheck() -> None:
    ours = ParameterFreeAttention(d_model=D, score="dot", dropout=0.0, positions=RelativePositions())
    states = torch.randn(1, 4, 3, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x: ours(x, ours.project(x), causal_mask(4, 4)[None, None], maps=True), states
    )


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (SelfAttentionConfig, {"kind": "qkv", "score": "location"}, r"self_attention\.score=location must be dot or "),
        (SelfAttentionConfig, {"kind": "parameter_free", "score": "general"}, "dot or scaled_dot with model.self_att"),
        (CrossAttentionConfig, {"score": "bilinear"}, r"model\.cross_attention\.score=bilinear must be dot or scaled"),
    ],
)
def test_scores_that_heads_do_not_have_are_refused(config: type, options: dict[str, str], message: str) -> None:
    with pytest.raises(HeedError, match=message):
        config(**options)


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("score", HEAD_SCORES)
def test_every_head_has_its_own_score(score: str, maps: bool) -> None:
    """Number by number: the formulas of the papers between the projected queries and keys of one head."""
    ours = MultiHeadAttention(d_model=D, num_heads=H, score=score, dropout=0.0, positions=RelativePositions())
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    states, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    mask = torch.rand(B, 1, 1, S) < 0.7
    mask[..., 0] = True
    output, weights = ours.eval()(states, ours.project(memory), mask, maps=maps)
    contexts = torch.zeros(B, T, D)
    weight = dict(ours.score.named_parameters())
    for b, h, t in itertools.product(range(B), range(H), range(T)):
        part = slice(h * E, (h + 1) * E)
        query = ours.query(states[b, t])[part]
        keys, values = (side[:, part] for side in ours.key_value(memory[b]).chunk(2, dim=-1))
        match score:
            case "dot" | "scaled_dot":
                scores = torch.stack([query @ key for key in keys]) / (E**0.5 if score == "scaled_dot" else 1)
            case "general":
                scores = torch.stack([query @ weight["weight.weight"][h] @ key for key in keys])
            case "additive" | "concat":
                W, U, v = (weight[f"{name}.weight"][h] for name in ("query", "state", "v"))
                scores = torch.stack([v[0] @ torch.tanh(W @ query + U @ key) for key in keys])
            case _:  # tests/layers/test_attention_scores.py has the formulas of scores that are added later
                alone = SCORES[score](ScoreOptions(query_width=E, state_width=E))
                alone.load_state_dict({name: value[h] for name, value in weight.items()})
                scores = alone(query[None, None], alone.project(keys[None]))[0, 0]
        expected = scores.masked_fill(~mask[b, 0, 0], -torch.inf).softmax(0)
        contexts[b, t, part] = expected @ values
        if maps:
            assert_close(weights[b, h, t], expected)
    assert_close(output, ours.output(contexts))


@pytest.mark.parametrize("rotary", [False, True])
def test_the_bias_of_keys_learns_only_where_positions_rotate_them(rotary: bool) -> None:
    """softmax(q·k + q·b) = softmax(q·k) for one b of all keys: there its gradient is exactly 0, and not rounding."""
    torch.manual_seed(5)
    positions = RotaryPositions(num_heads=2, width=8, causal=True) if rotary else RelativePositions()
    attention = MultiHeadAttention(d_model=24, num_heads=3, score="scaled_dot", dropout=0.0, positions=positions)
    states = torch.randn(2, 7, 24)
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    attention(states, attention.project(states), mask)[0].square().sum().backward()
    keys, values = attention.key_value.bias.grad.chunk(2)  # type: ignore[union-attr]
    assert bool(keys.abs().max() > 1e-3) == rotary
    assert rotary or not keys.any()
    assert values.abs().min() > 0
    assert attention.query.bias.grad.abs().min() > 0  # type: ignore[union-attr]
