"""What every model promises (heed.models.seq2seq), for every variant of both families, in float64."""

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import architectures
import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.testing import assert_close

from heed.errors import HeedError
from heed.layers.attention import HEAD_SCORES, PRODUCTS, CrossAttentionConfig, SelfAttentionConfig
from heed.layers.attention_scores import SCORES
from heed.layers.positions import PositionsConfig
from heed.models import FAMILIES, build_model
from heed.models.rnn_config import AttentionConfig
from heed.models.seq2seq import ModelConfig, Seq2Seq, TrainableSeq2Seq
from heed.symbols import BOS, EOS, PAD
from tests.conftest import CONFIGS, randomised

SRC_VOCAB, TGT_VOCAB = 23, 29
B, S, T = 3, 7, 5
LENGTHS = (7, 1, 4)

Changes = dict[str, Any]

POSITIONS = [
    *(PositionsConfig(kind="sinusoidal", merge=merge, max_length=None) for merge in ("add", "concat")),
    *(PositionsConfig(kind="learned", merge=merge, max_length=13) for merge in ("add", "concat")),
    *(PositionsConfig(kind=kind, merge=None, max_length=None) for kind in ("none", "rotary", "alibi", "relative")),
]
SELF_ATTENTIONS = [
    *(SelfAttentionConfig(kind="qkv", score=score) for score in HEAD_SCORES),
    *(SelfAttentionConfig(kind="parameter_free", score=score) for score in PRODUCTS),
]


def attention(score: str, **changes: Any) -> AttentionConfig:
    """With this score: as Luong has it, and not feeding, but for the changes."""
    plain = {"input_feeding": False, "max_source": 9 if score == "location" else None}
    return replace(architectures.ATTENTION, score=score, **{**plain, **changes})


ATTENTIONS = [
    *(attention(score, input_feeding=True) for score in SCORES),
    *(attention(score) for score in ("general", "location", "none")),
    *(attention(score, order="bahdanau") for score in ("dot", "additive", "none")),
    *(attention("general", reach=reach, window=2) for reach in ("local_m", "local_p")),
    attention("location", reach="local_m", window=2, input_feeding=True),
    attention("additive", reach="local_p", window=2, order="bahdanau", coverage=True),
    attention("concat", coverage=True),
    attention("concat", coverage=True, input_feeding=True),
]
VARIANTS: list[tuple[str, Changes]] = [
    *(("transformer", {"norm": "pre", "positions": kind}) for kind in POSITIONS),
    *(("transformer", {"norm": "post", "positions": kind}) for kind in POSITIONS[:2]),
    *(("transformer", {"self_attention": kind}) for kind in SELF_ATTENTIONS),
    *(("transformer", {"cross_attention": CrossAttentionConfig(score=score)}) for score in HEAD_SCORES[1:]),
    *(("transformer", {"self_attention": SELF_ATTENTIONS[-1], "positions": kind}) for kind in POSITIONS[-3:]),
    *(
        ("transformer", {"norm": norm, "norm_kind": kind, "residual": residual})
        for norm, kind, residual in (("pre", "rms", True), ("post", "rms", False), ("none", "layer", True))
    ),
    ("transformer", {"activation": "swiglu"}),
    ("transformer", {"norm": "post", "activation": "silu", "output_bias": True}),
    ("transformer", {"encoder_layers": 1, "decoder_layers": 1, "activation": "gelu", "tie_embeddings": False}),
    *(
        ("rnn", {"cell": cell, "layers": layers, "bidirectional": bidirectional})
        for cell in ("tanh", "lstm", "gru")
        for layers, bidirectional in ((1, True), (2, False))
    ),
    *(("rnn", {"attention": attention}) for attention in ATTENTIONS),
    ("rnn", {"bidirectional": False, "reverse_source": True}),
    *(
        ("rnn", {"cell": cell, "residual": True, "layers": 3, "attention": looking})
        for cell in ("tanh", "lstm", "gru")
        for looking in (attention("general"), attention("concat", reach="local_p", window=2, input_feeding=True))
    ),
    ("rnn", {"tie_embeddings": False}),
]


@dataclass(frozen=True)
class Pairs:
    """A padded batch."""

    src: Int[Tensor, "B S"]
    mask: Bool[Tensor, "B S"]
    tgt: Int[Tensor, "B T"]


@pytest.fixture(params=VARIANTS, ids=lambda variant: "-".join((variant[0], *variant[1])), scope="module")
def config(request: pytest.FixtureRequest) -> ModelConfig:
    family, changes = request.param
    changed: ModelConfig = replace(CONFIGS[family], **changes)
    return changed


def build(config: ModelConfig, *, tgt_vocab: int = TGT_VOCAB, joint: bool = False) -> Seq2Seq:
    """With all weights random: no PAD vector is zero."""
    return randomised(build_model(config, src_vocab=SRC_VOCAB, tgt_vocab=tgt_vocab, joint=joint), std=0.2).double()


@pytest.fixture(scope="module")
def model(config: ModelConfig) -> Seq2Seq:
    """One model of each variant for all tests, which leave it as it is."""
    return build(config)


@pytest.fixture
def pairs() -> Pairs:
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    tgt = torch.randint(EOS + 1, TGT_VOCAB, (B, T))
    tgt[:, 0] = BOS
    return Pairs(torch.randint(EOS + 1, SRC_VOCAB, (B, S)).masked_fill(~mask, PAD), mask, tgt)


def test_stepping_equals_teacher_forcing(model: Seq2Seq, pairs: Pairs) -> None:
    memory = model.encode(pairs.src, pairs.mask)
    whole = model.decode(pairs.tgt, memory, maps=True)
    assert whole.attention is not None
    state = model.start(memory)
    for t in range(T):
        output, state = model.step(pairs.tgt[:, t], state, maps=True)
        assert output.attention is not None
        assert_close(output.logits, whole.logits[:, t : t + 1], atol=1e-10, rtol=0)
        if whole.attention.cross is not None:
            assert_close(output.attention.cross, whole.attention.cross[..., t : t + 1, :], atol=1e-10, rtol=0)
        if whole.attention.decoder_self is not None:
            expected = whole.attention.decoder_self[..., t : t + 1, : t + 1]
            assert_close(output.attention.decoder_self, expected, atol=1e-10, rtol=0)


def test_a_token_changes_nothing_before_itself_and_everything_after(model: Seq2Seq, pairs: Pairs) -> None:
    memory = model.encode(pairs.src, pairs.mask)
    before = model.decode(pairs.tgt, memory).logits
    for changed in range(1, T):
        other = pairs.tgt.clone()
        other[:, changed] = torch.where(other[:, changed] == EOS + 1, EOS + 2, EOS + 1)
        after = model.decode(other, memory).logits
        assert_close(before[:, :changed], after[:, :changed], atol=1e-12, rtol=0)
        # Without residual sums the target chooses where to look in the source, and from one token there is no choice.
        if model.config.family == "rnn" or model.config.residual:
            assert ((before - after).abs().amax(-1)[:, changed:] > 1e-9).all()


def test_a_sentence_knows_nothing_of_its_batch(model: Seq2Seq, pairs: Pairs) -> None:
    """Neither the other sentences nor more padding, whatever ids stand in it, change its encoding or its logits."""
    padding = torch.randint(SRC_VOCAB, (B, 4))
    src = torch.cat((torch.where(pairs.mask, pairs.src, torch.randint(SRC_VOCAB, (B, S))), padding), 1)
    mask = F.pad(pairs.mask, (0, 4))
    memory = model.encode(src, mask)
    logits = model.decode(pairs.tgt, memory).logits
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        alone = model.encode(pairs.src[one, :length], pairs.mask[one, :length])
        assert_close(alone.states, memory.states[one, :length], atol=1e-10, rtol=0)
        assert_close(alone.final, memory.final and tuple(part[one] for part in memory.final), atol=1e-10, rtol=0)
        assert_close(model.decode(pairs.tgt[one], alone).logits, logits[one], atol=1e-10, rtol=0)


def test_states_follow_their_rows(model: Seq2Seq, pairs: Pairs) -> None:
    """Before each step the rows move; in the end each has stepped through its own history, and no other."""
    sentence, history = torch.arange(B), pairs.tgt[:, :1]
    output, state = model.step(history[:, 0], model.start(model.encode(pairs.src, pairs.mask)))
    moves = {
        "trade places": ([2, 0, 1], [2, 0, 1]),
        "branch": ([0, 0, 1, 1, 2, 2], None),
        "survive": ([1, 0, 3, 3, 5, 4], None),
        "leave": ([4, 5, 3, 3], [2, 1]),
        "part": ([3, 0, 2, 2], [1, 0, 1, 1]),
        "stay": ([0, 1, 2, 3], None),
    }
    for move, sentences in moves.values():
        rows, kept = torch.tensor(move), None if sentences is None else torch.tensor(sentences)
        tokens = torch.randint(EOS + 1, TGT_VOCAB, (len(rows),))
        sentence, history = sentence[rows], torch.cat((history[rows], tokens[:, None]), 1)
        output, state = model.step(tokens, state.reorder(rows, sentences=kept))
        expected = model(pairs.src[sentence], pairs.mask[sentence], history)
        assert_close(output.logits, expected[:, -1:], atol=1e-10, rtol=0)


def test_a_state_stays_valid(model: Seq2Seq, pairs: Pairs) -> None:
    _, state = model.step(pairs.tgt[:, 0], model.start(model.encode(pairs.src, pairs.mask)))
    expected, _ = model.step(pairs.tgt[:, 1], state)
    _, later = model.step(pairs.tgt[:, 2], state.reorder(torch.tensor([1, 1, 0]), torch.tensor([1, 1, 0])))
    model.step(pairs.tgt[:, 3], later)
    again, _ = model.step(pairs.tgt[:, 1], state)
    assert_close(again.logits, expected.logits, atol=0, rtol=0)


def assert_distributions(weights: Float[Tensor, "*any N"], visible: Bool[Tensor, "*any N"]) -> None:
    visible = visible.expand_as(weights)
    assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (weights[visible] > 0).all()
    assert not weights[~visible].any()


def assert_at_most_distributions(weights: Float[Tensor, "*any N"], visible: Bool[Tensor, "*any N"]) -> None:
    """Of a window, which may be empty and whose weights local-p does not normalise again."""
    assert (weights >= 0).all()
    assert (weights.sum(-1) < 1 + 1e-10).all()
    assert not weights[~visible.expand_as(weights)].any()


def test_maps_are_distributions_over_what_may_be_seen(model: Seq2Seq, pairs: Pairs) -> None:
    plain = model.decode(pairs.tgt, model.encode(pairs.src, pairs.mask))
    assert plain.attention is None
    output = model.decode(pairs.tgt, model.encode(pairs.src, pairs.mask, maps=True), maps=True)
    assert_close(output.logits, plain.logits, atol=1e-10, rtol=0)
    config: Any = model.config
    maps = output.attention
    assert maps is not None
    visible = pairs.mask[:, None]
    if config.family == "rnn":
        assert maps.encoder_self is None
        assert maps.decoder_self is None
        assert (maps.cross is None) == (config.attention.score == "none")
        if maps.cross is not None:
            assert maps.cross.shape == (1, 1, B, T, S)
            whole = config.attention.reach == "global"
            (assert_distributions if whole else assert_at_most_distributions)(maps.cross, visible)
        return
    assert maps.cross is not None
    assert maps.encoder_self is not None
    assert maps.decoder_self is not None
    assert maps.cross.shape == (config.decoder_layers, config.num_heads, B, T, S)
    self_heads = 1 if config.self_attention.kind == "parameter_free" else config.num_heads
    assert maps.encoder_self.shape == (config.encoder_layers, self_heads, B, S, S)
    assert maps.decoder_self.shape == (config.decoder_layers, self_heads, B, T, T)
    assert_distributions(maps.cross, visible)
    assert_distributions(maps.encoder_self, visible)
    assert_distributions(maps.decoder_self, torch.ones(T, T, dtype=torch.bool).tril())


@pytest.mark.slow
def test_training_differs_from_inference_by_dropout_alone(config: Any, pairs: Pairs) -> None:
    rates = [field.name for field in fields(config) if field.name.endswith("dropout")]
    dry = build(replace(config, **dict.fromkeys(rates, 0.0)))
    expected = dry(pairs.src, pairs.mask, pairs.tgt)
    assert_close(dry.train()(pairs.src, pairs.mask, pairs.tgt), expected, atol=1e-10, rtol=0)
    for rate in rates:
        wet = build(replace(config, **{**dict.fromkeys(rates, 0.0), rate: 0.5}))
        wet.load_state_dict(dry.state_dict())
        assert_close(wet(pairs.src, pairs.mask, pairs.tgt), expected, atol=1e-10, rtol=0)
        assert not torch.allclose(wet.train()(pairs.src, pairs.mask, pairs.tgt), expected)


def test_what_is_trained_is_what_decodes(config: ModelConfig, pairs: Pairs) -> None:
    model = build_model(config, src_vocab=SRC_VOCAB, tgt_vocab=TGT_VOCAB, joint=False).eval()
    output = model.decode_hidden(pairs.src, pairs.mask, pairs.tgt)
    assert_close(output.logits(), model(pairs.src, pairs.mask, pairs.tgt))


def test_mixed_inputs_are_gold_or_what_the_model_predicts_for_the_sentence_alone(model: Seq2Seq, pairs: Pairs) -> None:
    """An RNN predicts after the mixed inputs, a transformer after the gold ones. None predicts PAD or BOS."""
    assert isinstance(model, TrainableSeq2Seq)
    is_gold = torch.rand(B, T) < 0.5
    is_gold[0] = False
    mixed = model.mix_inputs(pairs.tgt, model.encode(pairs.src, pairs.mask), is_gold)
    for row, length in enumerate(LENGTHS):
        src, mask = (part[row : row + 1, :length] for part in (pairs.src, pairs.mask))
        gold, inputs = pairs.tgt[row].tolist(), [BOS]
        for t in range(1, T):
            before = inputs if model.config.family == "rnn" else gold[:t]
            log_odds = model(src, mask, torch.tensor([before]))[0, -1].tolist()
            predicted = max({*range(TGT_VOCAB)} - {PAD, BOS}, key=log_odds.__getitem__)
            inputs.append(gold[t] if is_gold[row, t] else predicted)
        assert mixed[row].tolist() == inputs


def test_gradients_reach_every_weight(config: ModelConfig, pairs: Pairs) -> None:
    model = build_model(config, src_vocab=SRC_VOCAB, tgt_vocab=TGT_VOCAB, joint=False).train()
    logits = model(pairs.src, pairs.mask, pairs.tgt)
    F.cross_entropy(logits.flatten(0, 1), torch.randint(TGT_VOCAB, (B * T,))).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert parameter.grad.abs().max() > 1e-12, path


def test_config_survives_as_plain_data(config: ModelConfig, pairs: Pairs) -> None:
    plain = json.loads(json.dumps(config.to_plain()))
    again = FAMILIES[config.family].from_plain(plain)
    assert again == config
    model, twin = build(config), build(again)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(pairs.src, pairs.mask, pairs.tgt), model(pairs.src, pairs.mask, pairs.tgt))


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_missing_and_wrong_keys_are_named(family: str) -> None:
    plain = CONFIGS[family].to_plain()
    with pytest.raises(HeedError, match=r"model.d_modle is unknown \(did you mean model.d_model\?\)"):
        FAMILIES[family].from_plain({**plain, "d_modle": 7})
    with pytest.raises(HeedError, match=r"model\.d_model=0 must be"):
        FAMILIES[family].from_plain({**plain, "d_model": 0})
    del plain["d_model"]
    with pytest.raises(HeedError, match=r"model\.d_model must be given"):
        FAMILIES[family].from_plain(plain)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("joint", "tied", "tables"), [(True, True, 1), (False, True, 2), (True, False, 3), (False, False, 3)]
)
def test_tied_embeddings_are_one_table(family: str, joint: bool, tied: bool, tables: int, pairs: Pairs) -> None:
    """Two vocabularies that happen to be of one size are not one vocabulary."""
    model = build(replace(CONFIGS[family], tie_embeddings=tied), tgt_vocab=SRC_VOCAB, joint=joint)
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    assert len(embeddings) == tables
    model(pairs.src, pairs.mask, pairs.tgt % SRC_VOCAB).sum().backward()
    assert all(embedding.weight.grad is not None for embedding in embeddings)


def test_the_configuration_knows_the_longest_source_and_target(config: ModelConfig, model: Seq2Seq) -> None:
    def run(src: int, tgt: int) -> None:
        memory = model.encode(torch.full((1, src), EOS), torch.ones(1, src, dtype=torch.bool))
        model.decode(torch.full((1, tgt), BOS), memory)

    (src, tgt) = (min((limit[side] for limit in config.length_limits.values()), default=20) for side in (0, 1))
    src, tgt = (int(min(length, 20)) for length in (src, tgt))
    run(src, tgt)
    assert model.max_target_length in (None, tgt)
    for option, (most_src, most_tgt, _) in config.length_limits.items():
        assert option.startswith("model.")
        for too_long in ((src + 1, tgt), (src, tgt + 1)):
            if too_long[0] > most_src or too_long[1] > most_tgt:
                with pytest.raises(HeedError, match="longer than"):
                    run(*too_long)
