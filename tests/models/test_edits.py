"""Edits of attention (heed.layers.edits) in every call of both families, with all scores of cross-attention."""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import architectures
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heed.decoding import BeamSearch, GreedySearch
from heed.decoding.search import for_search
from heed.errors import HeedError
from heed.layers.attention import HEAD_SCORES, Attention, CrossAttentionConfig, MultiHeadAttention, SelfAttentionConfig
from heed.layers.attention_scores import SCORES
from heed.layers.edits import Edit, layer_edits
from heed.models import build_model
from heed.models.edited import EditedModel
from heed.models.ensemble import Ensemble
from heed.models.rnn import RNN, SourceAttention
from heed.models.seq2seq import ModelConfig, Seq2Seq
from heed.models.transformer import Transformer
from heed.symbols import BOS, EOS, PAD
from tests.conftest import CONFIGS, randomised
from tests.decoding.test_search import assert_same, batch_of, exhaustive

B, S, T, V = 3, 7, 5, 29
LENGTHS = (7, 2, 4)


def rnn(score: str, **changes: Any) -> ModelConfig:
    plain = {"input_feeding": False, "max_source": 9 if score == "location" else None, "coverage": score == "concat"}
    return replace(CONFIGS["rnn"], attention=replace(architectures.ATTENTION, score=score, **{**plain, **changes}))


MODELS: dict[str, ModelConfig] = {
    **{
        f"transformer {score}": replace(CONFIGS["transformer"], cross_attention=CrossAttentionConfig(score=score))
        for score in HEAD_SCORES
    },
    "parameter-free": replace(
        CONFIGS["transformer"], self_attention=SelfAttentionConfig(kind="parameter_free", score="dot")
    ),
    **{f"rnn {score}": rnn(score, input_feeding=score != "dot") for score in SCORES if score != "none"},
    "rnn Bahdanau": rnn("additive", order="bahdanau"),
    "rnn local": rnn("general", reach="local_p", window=2),
}


def build(config: ModelConfig, vocab: int = V) -> Any:
    return randomised(build_model(config, src_vocab=V, tgt_vocab=vocab, joint=False), std=0.3)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return build(MODELS[request.param])


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor]:
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    src = torch.randint(EOS + 1, V, (B, S)).masked_fill(~mask, PAD)
    return src, mask, torch.randint(EOS + 1, V, (B, T))


def run(model: Seq2Seq, batch: Sequence[Tensor], edits: Sequence[Edit] | None = None, *, maps: bool = True) -> Any:
    src, mask, tgt = batch
    return model.decode(tgt, model.encode(src, mask, maps=maps, edits=edits), maps=maps, edits=edits)


def edits_of(model: Seq2Seq, what: str) -> list[Edit]:
    """Edits of every attention of the model: of some of its layers, heads and positions."""
    found: list[Edit] = []
    for kind, (layers, heads) in model.attention_heads.items():
        rows = S if kind == "encoder_self" else T
        keys = T if kind == "decoder_self" else S
        weights: Any = {"array": np.random.default_rng(0).random((layers, heads, rows - 2, keys - 1))}.get(what, what)
        if what == "row":
            weights = torch.rand(1, 1, 1, keys)
        found += [Edit(kind, weights, layers=[layers - 1]), Edit(kind, weights, heads=[0], positions=range(1, 4))]
    return found


KINDS_OF_EDITS = ["off", "uniform", "diagonal", "array", "row"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *product(("transformer scaled_dot", "rnn Bahdanau"), KINDS_OF_EDITS),
        *((name, KINDS_OF_EDITS[number % 5]) for number, name in enumerate(MODELS)),
    ],
)
def test_stepping_equals_teacher_forcing_under_every_edit(
    batch: tuple[Tensor, Tensor, Tensor], name: str, what: str
) -> None:
    model = build(MODELS[name])
    src, mask, tgt = batch
    edits = edits_of(model, what)
    whole = run(model, batch, edits)
    assert not torch.allclose(whole.logits, run(model, batch).logits)
    state = model.start(model.encode(src, mask, edits=edits))
    for t in range(T):
        output, state = model.step(tgt[:, t], state, maps=True, edits=edits)
        assert_close(output.logits, whole.logits[:, t : t + 1])
        assert output.attention is not None
        assert_close(output.attention.cross, whole.attention.cross[..., t : t + 1, :])
    assert_close(run(model, batch, edits, maps=False).logits, whole.logits, atol=0, rtol=0)
    assert run(model, batch, edits, maps=False).attention is None


def test_the_weights_that_a_head_has_change_nothing(model: Seq2Seq, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    for row, length in enumerate(LENGTHS):
        one = batch[0][row : row + 1, :length], batch[1][row : row + 1, :length], batch[2][row : row + 1]
        with_maps, fused = run(model, one), run(model, one, maps=False)
        own = [
            Edit(kind, getattr(with_maps.attention, kind)[:, :, 0], positions=positions)
            for kind in model.attention_heads
            for positions in (None, [0, 2])
        ]
        forced = run(model, one, own)
        assert torch.equal(forced.logits, with_maps.logits)
        assert torch.equal(forced.attention.cross, with_maps.attention.cross)
        assert_close(forced.logits, fused.logits, atol=1e-6, rtol=0)


def test_each_sentence_of_a_batch_can_have_weights_of_its_own(
    model: Seq2Seq, batch: tuple[Tensor, Tensor, Tensor]
) -> None:
    plain = run(model, batch)
    own = [Edit(kind, getattr(plain.attention, kind)) for kind in model.attention_heads]
    assert torch.equal(run(model, batch, own).logits, plain.logits)
    weights = {kind: torch.rand_like(getattr(plain.attention, kind)) for kind in model.attention_heads}
    found = run(model, batch, [Edit(kind, each, heads=[0]) for kind, each in weights.items()])
    for row in range(B):
        alone = [Edit(kind, each[:, :, row], heads=[0]) for kind, each in weights.items()]
        assert_close(found.logits[row], run(model, batch, alone).logits[row])
    with pytest.raises(HeedError, match=f"Weights of {B - 1} sentences are given for a batch of {B}"):
        run(model, batch, [Edit("cross", weights["cross"][:, :, 1:])])


def test_no_edits_are_the_fast_path(model: Seq2Seq, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    assert layer_edits([], 0, 0, 3) == layer_edits(None, 0, 0, 3) == {}
    for maps in (False, True):
        assert torch.equal(run(model, batch, [], maps=maps).logits, run(model, batch, maps=maps).logits)


def test_edited_passes_never_use_a_fused_kernel_or_step(
    monkeypatch: pytest.MonkeyPatch, batch: tuple[Tensor, Tensor, Tensor]
) -> None:
    model = build(CONFIGS["transformer"])
    edits = [Edit("cross", "uniform", layers=[0], heads=[1], positions=[2])]
    src, mask, tgt = batch
    with torch.inference_mode():
        fused = for_search(model)
        assert fused is not model
        edited = EditedModel(model, edits)
        assert for_search(edited) is edited

        def never(*args: Any, **options: Any) -> None:
            raise AssertionError("a fused kernel was used")

        monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", never)
        for other in (model, fused):
            memory = other.encode(src, mask, edits=edits)
            found, _ = other.step(tgt[:, 0], other.start(memory), edits=edits)
            assert_close(found.logits, run(edited, batch, maps=False).logits[:, :1])
        with pytest.raises(AssertionError, match="fused kernel"):
            run(model, batch, maps=False)


def cut(attention: Attention, head: int) -> None:
    """Let nothing read the context of a head."""
    assert isinstance(attention, MultiHeadAttention)
    width = attention.output.in_features // attention.num_heads
    with torch.no_grad():
        attention.output.weight[:, head * width : (head + 1) * width] = 0


def test_heads_can_be_switched_off_one_by_one(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    model = build(CONFIGS["transformer"])
    assert isinstance(model, Transformer)
    before, twin = run(model, batch), copy.deepcopy(model)
    cut(twin.encoder[-1].self_attention.sublayer.attention, 1)
    cut(twin.decoder[0].self_attention.sublayer.attention, 0)
    for head in (0, 1):
        cut(twin.decoder[1].cross_attention.sublayer.attention, head)
    last = len(model.encoder) - 1
    edits = [
        Edit("encoder_self", "off", layers=[last], heads=[1]),
        Edit("decoder_self", "off", layers=[0], heads=[0]),
        Edit("cross", "off", layers=[1], heads=[0, 1]),
    ]
    off = run(model, batch, edits)
    assert_close(off.logits, run(twin, batch).logits)
    assert not torch.allclose(off.logits, before.logits)
    assert (off.attention.cross[1, :2] == 0).all()
    assert torch.equal(run(model, batch).logits, before.logits)


@pytest.mark.parametrize(("what", "mean"), [("off", 0.0), ("uniform", 1.0)])
@pytest.mark.parametrize("score", HEAD_SCORES)
def test_off_is_a_context_of_zeros_and_uniform_mean_pooling(score: str, what: Any, mean: float) -> None:
    config = replace(CONFIGS["transformer"], cross_attention=CrossAttentionConfig(score=score))
    attention = build(config).decoder[0].cross_attention.sublayer.attention
    memory = attention.project(torch.randn(B, S, attention.output.in_features))
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    edit = layer_edits([Edit("cross", what)], 0, 0, T)["cross"]
    found, _ = attention(
        torch.randn(B, T, attention.output.in_features), memory, mask[:, None, None], maps=True, edit=edit
    )
    for row, length in enumerate(LENGTHS):
        context = mean * memory.value[row, :, :length].mean(1).flatten()
        assert_close(found[row], attention.output(context).expand(T, -1))


@pytest.mark.parametrize(("what", "mean"), [("off", 0.0), ("uniform", 1.0)])
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("rnn")])
def test_off_and_uniform_in_rnns(
    monkeypatch: pytest.MonkeyPatch, batch: tuple[Tensor, Tensor, Tensor], name: str, what: Any, mean: float
) -> None:
    model = build(MODELS[name])
    edited = run(model, batch, [Edit("cross", what)])

    def pooled(self: SourceAttention, query: Tensor, source: Any, *_: Any) -> tuple[Tensor, Tensor]:
        weights = mean * (source.mask / source.mask.sum(1, keepdim=True))[:, None].expand(-1, query.shape[1], -1)
        return (weights[..., None] * source.states[:, None]).sum(2), weights

    monkeypatch.setattr(SourceAttention, "forward", pooled)
    assert_close(edited.logits, run(model, batch).logits)


def test_the_diagonal_ends_with_the_source(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    for config in CONFIGS.values():
        cross = run(build(config), batch, [Edit("cross", "diagonal", heads=[0])]).attention.cross
        for row, length in enumerate(LENGTHS):
            expected = torch.eye(T, S) * (torch.arange(T) < length)[:, None]
            assert_close(cross[0, 0, row], expected)


@pytest.mark.parametrize("name", ["transformer scaled_dot", "rnn general"])
@pytest.mark.parametrize("what", ["off", "uniform", "diagonal", "row"])
def test_beam_search_under_edits_is_exhaustive_search(name: str, what: str) -> None:
    vocab, limit, alpha = 6, 3, 0.6
    model = build(MODELS[name], vocab)
    for parameter in model.parameters():
        parameter.data *= 2
    edited = EditedModel(model, edits_of(model, what))
    sources = [torch.randint(EOS + 1, V, (length,)).tolist() for length in (S, 3)]
    lengths = {"max_length_factor": 0.0, "max_length_extra": limit}
    beam = BeamSearch(beam=vocab**limit, length_penalty=alpha, n_best=3, **lengths)
    for source, found in zip(sources, beam(edited, *batch_of(sources)), strict=True):
        assert_same(found, exhaustive(edited, source, limit, alpha, vocab)[:3])
    greedy = GreedySearch(**lengths)(edited, *batch_of(sources))
    first = BeamSearch(beam=1, length_penalty=0.0, n_best=1, **lengths)(edited, *batch_of(sources))
    assert [found[0].tokens for found in greedy] == [found[0].tokens for found in first]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["transformer scaled_dot", "rnn Bahdanau"])
def test_translations_start_with_the_prefix(name: str, beam: int) -> None:
    """What follows is searched as if the model had chosen the prefix itself."""
    model = build(MODELS[name])
    src, mask = torch.randint(EOS + 1, V, (1, S)), torch.ones(1, S, dtype=torch.bool)
    search = BeamSearch(beam=beam, length_penalty=0.0, n_best=1, max_length_factor=0.0, max_length_extra=6)
    prefix = torch.randint(EOS + 1, V, (3,)).tolist()
    ((found,),) = search(EditedModel(model, [], prefix), src, mask)
    assert found.tokens[:3] == prefix
    targets = torch.tensor([[*found.tokens, *[EOS] * found.finished]])
    log_p = model(src, mask, torch.cat((torch.tensor([[BOS]]), targets[:, :-1]), 1)).log_softmax(2)
    assert found.log_prob == pytest.approx(log_p.gather(2, targets[..., None])[0, 3:].sum().item())
    ((own,),) = search(model, src, mask)
    ((again,),) = search(EditedModel(model, [], own.tokens[:2]), src, mask)
    assert beam > 1 or again.tokens == own.tokens


def test_a_call_may_add_edits(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    model = build(CONFIGS["transformer"])
    first, second = Edit("cross", "off", layers=[0]), Edit("decoder_self", "uniform", heads=[2])
    edited = EditedModel(EditedModel(model, [first]), [])
    assert torch.equal(run(edited, batch, [second]).logits, run(model, batch, [first, second]).logits)
    assert edited.config is model.config
    assert not edited.training


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Edit("cross", "off", layers=[2]), r"no such cross attention \(layers × heads: cross 2 × 5, encoder_self "),
        (Edit("cross", "off", layers=[0, -1]), "no such cross"),
        (Edit("encoder_self", "off", heads=[5]), "no such encoder_self"),
        (Edit("cross", torch.rand(3, 5, 2, 2)), "Weights of 3 layers and 5 heads must have 1 or 2 layers and 1"),
    ],
)
def test_wrong_edits_are_refused_in_every_call(batch: tuple[Tensor, Tensor, Tensor], edit: Edit, message: str) -> None:
    model = build(CONFIGS["transformer"])
    src, mask, tgt = batch
    memory = model.encode(src, mask)
    calls = [
        lambda: model.encode(src, mask, edits=[edit]),
        lambda: model.decode(tgt, memory, edits=[edit]),
        lambda: model.step(tgt[:, 0], model.start(memory), edits=[edit]),
        lambda: EditedModel(model, [edit]),
    ]
    for call in calls:
        with pytest.raises(HeedError, match=message):
            call()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("none", r"^weights='none' must be off, uniform, diagonal or an array\.$"),
        (torch.rand(2, 2), r"^Weights of shape \(2, 2\) must have the axes layers, heads, queries and keys"),
    ],
)
def test_wrong_weights_are_refused_when_an_edit_is_made(weights: Any, message: str) -> None:
    create = inspect.unwrap(Edit.__init__)  # without the checks of types that tests add
    with pytest.raises(HeedError, match=message):
        create(Edit.__new__(Edit), "cross", weights)


def test_families_without_an_attention_refuse_it(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    model = build(CONFIGS["rnn"])
    assert isinstance(model, RNN)
    for other, kind in ((model, "encoder_self"), (build(rnn("none")), "cross"), (Ensemble([model]), "cross")):
        with pytest.raises(HeedError, match=rf"no such {kind} attention \(layers × heads: (cross 1 × 1|none)\)\."):
            run(other, batch, [Edit(kind, "off")], maps=False)
