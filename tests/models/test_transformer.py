"""The transformer against torch's own, with copied weights: layers, stacks, the whole model, and its size."""

import math
from dataclasses import replace
from typing import Any

import architectures
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from heed.functional import causal_mask
from heed.layers.positions import PositionsConfig
from heed.models import build_model
from heed.models.transformer import DecoderLayer, EncoderLayer
from heed.models.transformer_config import TransformerConfig
from tests.conftest import randomised
from tests.layers.test_attention import copy_attention

B, S, T, V = 3, 7, 5, 29


CONFIG = replace(
    architectures.TRANSFORMER, d_model=22, num_heads=2, d_ff=31, decoder_layers=2, dropout=0.1, attention_dropout=0.1,
    activation_dropout=0.1,
)  # fmt: skip


@pytest.fixture(params=["pre", "post"])
def norm(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["relu", "gelu"])
def config(request: pytest.FixtureRequest, norm: str) -> TransformerConfig:
    return replace(CONFIG, norm=norm, activation=request.param)


def arguments(config: TransformerConfig) -> dict[str, Any]:
    """What torch calls these choices."""
    return {
        "d_model": config.d_model,
        "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "activation": config.activation,
        "norm_first": config.norm == "pre",
        "batch_first": True,
    }


def torch_layer(
    ours: EncoderLayer | DecoderLayer, config: TransformerConfig
) -> nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    """torch's layer with our weights."""
    decoder = isinstance(ours, DecoderLayer)
    theirs = (nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer)(**arguments(config))
    copy_attention(ours.self_attention.sublayer.attention, theirs.self_attn)
    if decoder:
        copy_attention(ours.cross_attention.sublayer.attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.sublayer.up_projection.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.sublayer.down_projection.state_dict())
    residuals = [ours.self_attention, *([ours.cross_attention] if decoder else []), ours.feed_forward]
    for number, residual in enumerate(residuals, start=1):
        theirs.get_submodule(f"norm{number}").load_state_dict(residual.norm.state_dict())
    return theirs.eval()


def padding() -> Tensor:
    return torch.arange(S) < torch.tensor([S, 1, 4])[:, None]


def test_whole_model_equals_torch(config: TransformerConfig) -> None:
    """√D E[ids] + PE → torch's stacks → inner products with E (Vaswani et al. 2017, §3.4)."""
    model = randomised(build_model(config, src_vocab=V, tgt_vocab=V, joint=True))
    src, mask, tgt = torch.randint(V, (B, S)), padding(), torch.randint(V, (B, T))
    width, table = config.d_model, model.tgt_embedding.weight

    def enter(ids: Tensor) -> Tensor:
        code = torch.zeros(ids.shape[1], width)
        for position in range(ids.shape[1]):
            for i in range(0, width, 2):
                angle = position / 10_000 ** (i / width)
                code[position, i], code[position, i + 1] = math.sin(angle), math.cos(angle)
        return width**0.5 * table[ids] + code

    states = enter(src)
    for layer in model.encoder:
        states = torch_layer(layer, config)(states, src_key_padding_mask=~mask)
    if config.norm == "pre":
        states = nn.functional.layer_norm(states, [width], *model.encoder_norm.parameters())
    x = enter(tgt)
    for layer in model.decoder:
        x = torch_layer(layer, config)(x, states, tgt_mask=~causal_mask(T, T), memory_key_padding_mask=~mask)
    if config.norm == "pre":
        x = nn.functional.layer_norm(x, [width], *model.decoder_norm.parameters())

    memory = model.encode(src, mask)
    assert_close(memory.states, states)
    assert_close(model.decode(tgt, memory).logits, x @ table.T)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(
    ("place", "kind"), [("pre", "layer"), ("pre", "rms"), ("post", "layer"), ("post", "rms"), ("none", "layer")]
)
def test_norm_and_residual_can_be_chosen_and_left_out(place: str, kind: str, residual: bool) -> None:
    config = replace(CONFIG, norm=place, norm_kind=kind, residual=residual)
    layer, x = randomised(EncoderLayer(config)), torch.randn(B, S, config.d_model)
    attention, ffn = (
        nn.MultiheadAttention(config.d_model, config.num_heads, batch_first=True),
        layer.feed_forward.sublayer,
    )
    copy_attention(layer.self_attention.sublayer.attention, attention)

    def normed(x: Tensor, weights: list[Tensor]) -> Tensor:
        if kind == "layer":
            return nn.functional.layer_norm(x, [config.d_model], *weights)
        return nn.functional.rms_norm(x, [config.d_model], *weights, eps=1e-6)

    expected = x
    for residual_step, sublayer in zip(
        (layer.self_attention, layer.feed_forward),
        (
            lambda h: attention(h, h, h, need_weights=False)[0],
            lambda h: ffn.down_projection(nn.functional.relu(ffn.up_projection(h))),
        ),
        strict=True,
    ):
        weights = list(residual_step.norm.parameters())
        update = sublayer(normed(expected, weights) if place == "pre" else expected)
        expected = expected + update if residual else update
        expected = normed(expected, weights) if place == "post" else expected
    output, _ = layer(x, torch.ones(B, 1, 1, S, dtype=torch.bool), maps=False)
    assert_close(output, expected)


def test_layer_dropout_skips_layers_sentence_by_sentence() -> None:
    dry = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    config = replace(CONFIG, **dry, encoder_layers=1, norm="none", layer_dropout=0.25)
    model = randomised(build_model(config, src_vocab=V, tgt_vocab=V, joint=True))
    src = torch.randint(V, (200, S))
    mask = torch.ones_like(src, dtype=torch.bool)
    whole, skipped = model.encode(src, mask).states, model.src_positions(model.src_embedding(src))
    states = model.train().encode(src, mask).states
    out = (states == skipped).all(-1).all(-1)
    assert_close(states[~out], whole[~out])
    assert 25 < out.sum() < 75


def encoded(positions: str, src: Tensor) -> Tensor:
    torch.manual_seed(1)
    merge = "add" if positions == "sinusoidal" else None
    config = replace(CONFIG, d_model=24, positions=PositionsConfig(kind=positions, merge=merge, max_length=None))
    model = build_model(config, src_vocab=V, tgt_vocab=V, joint=True)
    return randomised(model).encode(src, torch.ones_like(src, dtype=torch.bool)).states


def test_without_positions_a_sentence_is_a_set() -> None:
    src, order = torch.randint(V, (B, S)), torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert_close(encoded("none", src[:, order]), encoded("none", src)[:, order], atol=1e-10, rtol=0)
    for kind in ("sinusoidal", "rotary", "alibi", "relative"):
        assert not torch.allclose(encoded(kind, src[:, order]), encoded(kind, src)[:, order], atol=1e-3), kind


def test_moving_rows_within_their_sentences_does_not_copy_the_memory() -> None:
    model = build_model(CONFIG, src_vocab=V, tgt_vocab=V, joint=True)
    state = model.start(model.encode(torch.randint(V, (B, S)), padding()))
    beams = state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert beams.reorder(torch.tensor([1, 0, 3, 3, 4, 5])).memory is beams.memory
    assert len(beams.reorder(torch.tensor([2, 2]), sentences=torch.tensor([1])).memory_mask) == 1
