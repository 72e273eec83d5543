"""Scaled dot-product and multi-head attention against torch's own, and against known answers."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from heed.layers.attention import KeyValue, MultiHeadAttention, attend, attend_fused
from heed.layers.masks import causal_mask

B, T, S, H, E, V = 2, 5, 7, 3, 11, 13
D = H * E

MASKS = {
    "everything": torch.ones(1, 1, 1, S, dtype=torch.bool),
    "padding": (torch.arange(S) < torch.tensor([[S], [3]]))[:, None, None],
    "past": causal_mask(S)[None, None, :T],
    "one row sees nothing": torch.arange(B * T * S).reshape(B, 1, T, S) >= 2 * S,
}
masks = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    shapes = (B, H, T, E), (B, H, S, E), (B, H, S, V)
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
    return query, key, value


def attention(*, dropout: float = 0.0) -> MultiHeadAttention:
    """With random biases too, which are zero at first."""
    module = MultiHeadAttention(d_model=D, num_heads=H, dropout=dropout)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


def torch_twin(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat((ours.query.weight, ours.key_value.weight)),
            "in_proj_bias": torch.cat((ours.query.bias, ours.key_value.bias)),
            "out_proj.weight": ours.output.weight,
            "out_proj.bias": ours.output.bias,
        }
    )
    return theirs.eval()


def test_known_answer() -> None:
    """Scores 112 and 96 with d_k = 64: scaled 14 and 12, shared 0.88 to 0.12."""
    query = torch.randn(1, 64)
    key = torch.tensor([[112.0], [96.0]]) * query / query.square().sum()
    context, weights = attend(query, key, torch.eye(2), torch.ones(1, 2, dtype=torch.bool))
    assert_close(query @ key.T, torch.tensor([[112.0, 96.0]]))
    assert_close(weights, torch.tensor([[14.0, 12.0]]).softmax(-1))
    assert [round(weight, 2) for weight in weights[0].tolist()] == [0.88, 0.12]
    assert_close(context, weights)


@masks
@pytest.mark.parametrize("path", ["plain", "fused"])
def test_both_paths_equal_the_formula_and_so_do_their_gradients(path: str, mask: Tensor) -> None:
    query, key, value = inputs = qkv()
    scores = torch.einsum("bhte,bhse->bhts", query, key) / E**0.5
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    weights = exponentials / exponentials.sum(-1, keepdim=True).clamp_min(1e-300)
    expected = torch.einsum("bhts,bhsv->bhtv", weights, value)

    if path == "plain":
        context, shown = attend(query, key, value, mask)
        assert_close(shown, weights)
    else:
        context = attend_fused(query, key, value, mask)
    assert_close(context, expected)
    upstream = torch.randn_like(context)
    for ours, theirs in zip(
        torch.autograd.grad(context, inputs, upstream), torch.autograd.grad(expected, inputs, upstream), strict=True
    ):
        assert_close(ours, theirs)


@masks
def test_plain_path_equals_torch(mask: Tensor) -> None:
    query, key, value = qkv()
    context, _ = attend(query, key, value, mask)
    assert_close(context, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))


def test_plain_path_passes_gradcheck() -> None:
    mask = MASKS["one row sees nothing"][0, 0, :3]
    query, key, value = (torch.randn(n, 5, requires_grad=True) for n in (3, S, S))
    assert torch.autograd.gradcheck(lambda *inputs: attend(*inputs, mask), (query, key, value))


def test_weights_shown_are_those_before_dropout() -> None:
    query, key, value = qkv()
    _, weights = attend(query, key, value, MASKS["padding"])
    context, shown = attend(query, key, value, MASKS["padding"], dropout=1.0)
    assert_close(shown, weights)
    assert not context.any()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("kind", ["everything", "padding", "past"])
def test_multi_head_equals_torch(kind: str, maps: bool, training: bool) -> None:
    ours = attention().train(training)
    states, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    mask = MASKS[kind]
    output, shown = ours(states, ours.project(memory), mask, maps=maps)
    hidden = ~mask.expand(B, H, T, S).flatten(0, 1)
    expected, weights = torch_twin(ours)(states, memory, memory, attn_mask=hidden, average_attn_weights=False)
    assert_close(output, expected)
    if maps:
        assert_close(shown, weights)
    else:
        assert shown is None


def test_self_attention_equals_torch() -> None:
    ours, states = attention(), torch.randn(B, S, D)
    output, _ = ours(states, ours.project(states), causal_mask(S)[None, None])
    expected, _ = torch_twin(ours)(states, states, states, attn_mask=~causal_mask(S), need_weights=False)
    assert_close(output, expected)


@pytest.mark.parametrize("maps", [False, True])
def test_dropout_works_in_training_only(maps: bool) -> None:
    ours, states = attention(dropout=0.5), torch.randn(B, S, D)
    memory, mask = ours.project(states), MASKS["padding"]

    def output() -> Tensor:
        return ours(states, memory, mask, maps=maps)[0]

    assert_close(output(), output(), rtol=0, atol=0)
    ours.train()
    assert not torch.allclose(output(), output())


@masks
def test_maps_are_distributions_over_what_may_be_seen(mask: Tensor) -> None:
    ours = attention()
    _, weights = ours(torch.randn(B, T, D), ours.project(torch.randn(B, S, D)), mask, maps=True)
    mask = mask.expand(B, H, T, S)
    assert_close(weights.sum(-1), mask.any(-1).double())
    assert torch.equal(weights > 0, mask)


def test_cache_built_step_by_step_equals_all_at_once() -> None:
    ours, states = attention(), torch.randn(B, S, D)
    whole = ours.project(states)
    expected, _ = ours(states, whole, causal_mask(S)[None, None])
    cache: KeyValue | None = None
    for t in range(S):
        state = states[:, t : t + 1]
        new = ours.project(state)
        cache = new if cache is None else cache.append(new)
        output, _ = ours(state, cache, torch.ones(1, 1, 1, t + 1, dtype=torch.bool))
        assert_close(output, expected[:, t : t + 1])
    assert cache is not None
    assert_close((cache.key, cache.value), (whole.key, whole.value))


def test_cache_rows_repeat_trade_places_and_leave() -> None:
    cache = KeyValue(torch.randn(3, H, S, E), torch.randn(3, H, S, E))
    moved = cache.reorder(torch.tensor([2, 0, 2, 2]))
    for row, old in enumerate([2, 0, 2, 2]):
        assert torch.equal(moved.key[row], cache.key[old])
        assert torch.equal(moved.value[row], cache.value[old])
