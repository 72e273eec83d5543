"""The RNN against torch's recurrent layers on one sentence at a time, and against its equations written out."""

from dataclasses import replace
from itertools import product
from typing import Any, cast

import architectures
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from heed.layers.attention_scores import AdditiveScore, GeneralScore, LocationScore
from heed.layers.reach import PredictiveReach
from heed.models import build_model
from heed.models.rnn import RNN, Encoder
from heed.models.rnn_config import AttentionConfig, RNNConfig
from heed.symbols import PAD
from tests.conftest import randomised

B, S, T, V = 3, 7, 5, 29
LENGTHS = (4, 7, 1)


def attention(score: str, **changes: Any) -> AttentionConfig:
    """With this score: global, in Luong's order and not feeding, but for the changes."""
    plain = {"input_feeding": False, "max_source": 7 if score == "location" else None}
    return replace(architectures.ATTENTION, score=score, **{**plain, **changes})


CONFIG = replace(architectures.RNN, d_embedding=7, d_model=22, layers=2, dropout=0.1)
ATTENTIONS = [
    attention("general", input_feeding=True),
    attention("concat", input_feeding=True),
    attention("dot"),
    attention("scaled_dot"),
    attention("location"),
    attention("additive", order="bahdanau"),
    attention("general", order="bahdanau"),
    attention("dot", reach="local_m", window=1),
    attention("location", reach="local_m", window=2, input_feeding=True),
    attention("general", reach="local_p", window=2),
    attention("additive", reach="local_p", window=1, order="bahdanau"),
    attention("concat", coverage=True),
    attention("additive", coverage=True, order="bahdanau", reach="local_m", window=3),
    attention("none"),
]
TORCH = {"tanh": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}

cells = pytest.mark.parametrize(("cell", "layers"), [*product(TORCH, (1, 2))])


def built(config: RNNConfig) -> RNN:
    return randomised(build_model(config, src_vocab=V, tgt_vocab=V, joint=True))


def batch() -> tuple[Tensor, Tensor]:
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(PAD + 1, V, (B, S)).masked_fill(~mask, PAD), mask


@cells
@pytest.mark.parametrize("bidirectional", [True, False])
def test_encoder_equals_torch_on_each_sentence_alone(cell: str, layers: int, bidirectional: bool) -> None:
    model = built(replace(CONFIG, cell=cell, layers=layers, bidirectional=bidirectional))
    directions = 2 if bidirectional else 1
    theirs = TORCH[cell](7, 22 // directions, layers, bidirectional=bidirectional, batch_first=True)
    theirs.load_state_dict(
        {
            weight.replace("layer.", "").replace("_l0", f"_l{number}{suffix}"): value
            for number, both in enumerate(model.encoder.layers)
            for direction, suffix in zip(cast(nn.ModuleList, both), ("", "_reverse"), strict=False)
            for weight, value in direction.state_dict().items()
        }
    )
    src, mask = batch()
    memory = model.encode(src, mask)
    assert memory.final is not None
    assert not memory.states[~mask].any()
    for row, length in enumerate(LENGTHS):
        states, final = theirs(7**0.5 * model.src_embedding.weight[src[row, :length]])
        assert_close(memory.states[row, :length], states)
        # torch stacks layer after layer, its forward direction first; we join the directions of each.
        parts = final if cell == "lstm" else (final,)
        expected = [part.view(layers, 22)[layer] for layer in range(layers) for part in parts]
        assert_close([part[row] for part in memory.final], expected)


@pytest.mark.parametrize("score", ["general", "none"])
def test_a_reversed_source_is_read_backwards_and_keeps_its_place_in_maps(score: str) -> None:
    forwards = built(replace(CONFIG, bidirectional=False, attention=attention(score)))
    backwards = built(replace(forwards.config, reverse_source=True))
    backwards.load_state_dict(forwards.state_dict())
    src, mask = batch()
    tgt = torch.randint(PAD + 1, V, (B, T))
    for row, length in enumerate(LENGTHS):
        sentence, whole, target = src[row : row + 1, :length], mask[row : row + 1, :length], tgt[row : row + 1]
        expected = forwards.decode(target, forwards.encode(sentence.flip(1), whole), maps=True)
        found = backwards.decode(target, backwards.encode(sentence, whole), maps=True)
        assert_close(found.logits, expected.logits)
        assert found.attention is not None
        assert expected.attention is not None
        if expected.attention.cross is not None:
            assert found.attention.cross is not None
            assert_close(found.attention.cross, expected.attention.cross.flip(-1))
        in_batch = backwards.decode(tgt, backwards.encode(src, mask))
        assert_close(in_batch.logits[row], found.logits[0])


def tanh(x: Tensor, h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """h' = tanh(W x + U h) (Elman 1990)."""
    return ((x + h).tanh(),)


def lstm(x: Tensor, h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c') (Hochreiter & Schmidhuber 1997, with the forget gate of 2000)."""
    i, f, g, o = (x + h).chunk(4)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(x: Tensor, h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """h' = (1 − z) n + z h (Cho et al. 2014; the reset gate inside, behind the matrix, as in cuDNN)."""
    (r, z, n), (r_h, z_h, n_h) = x.chunk(3), h.chunk(3)
    r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
    return ((1 - z) * (n + r * n_h).tanh() + z * state[0],)


def look(model: RNN, h: Tensor, states: Tensor, t: int, coverage: list[Tensor]) -> Tensor:
    """c_t = Σ_s a_t(s) h_s over the states of one sentence; ``coverage`` grows by a_t."""
    attention, score, reach = model.config.attention, model.attention.score, model.attention.reach
    match attention.score, score:
        case "dot", _:
            scores = [h @ state for state in states]
        case "scaled_dot", _:
            scores = [h @ state / 22**0.5 for state in states]
        case "general", GeneralScore():
            scores = [h @ score.weight.weight @ state for state in states]
        case "location", LocationScore():
            scores = [score.weight.weight[s] @ h for s in range(len(states))]
        case (("concat" | "additive"), AdditiveScore()):
            inner = [score.query.weight @ h + score.state.weight @ state for state in states]
            if score.coverage is not None:
                inner = [x + score.coverage.weight[:, 0] * c for x, c in zip(inner, coverage, strict=True)]
            scores = [score.v.weight[0] @ x.tanh() for x in inner]
        case other:
            raise AssertionError(other)
    center = torch.tensor(float(t))
    if isinstance(reach, PredictiveReach):
        center = len(states) * (reach.v_p.weight[0] @ (reach.W_p.weight @ h).tanh()).sigmoid()
    window = attention.window if attention.reach != "global" and attention.window is not None else 100
    inside = [s for s in range(len(states)) if abs(s - center) <= window]
    weights = [torch.zeros(())] * len(states)
    for s in inside:
        weights[s] = scores[s].exp() / sum((scores[s].exp() for s in inside), torch.zeros(()))
        if attention.reach == "local_p":
            weights[s] = weights[s] * (-((s - center) ** 2) / (2 * (window / 2) ** 2)).exp()
    coverage[:] = [c + a for c, a in zip(coverage, weights, strict=True)]
    return sum((a * state for a, state in zip(weights, states, strict=True)), torch.zeros(22))


def equations(model: RNN, states: Tensor, finals: list[Tensor], tokens: list[int]) -> list[Tensor]:
    """The logits of one sentence, token by token, as the papers write them.

    Luong et al. 2015, §3.1 and §3.3: [E y; h̃_{t-1}] → h_t → c_t → h̃_t = tanh(W_c [c_t; h_t]).
    Bahdanau et al. 2015, §3.1: s_{t-1} → c_t, [E y; c_t] → s_t.
    """
    config, attention = model.config, model.config.attention
    advance = {"tanh": tanh, "lstm": lstm, "gru": gru}[config.cell]
    parts = 2 if config.cell == "lstm" else 1
    layers = [tuple(finals[i : i + parts]) for i in range(0, len(finals), parts)]
    attentional, logits, coverage = torch.zeros(22), [], [torch.zeros(())] * len(states)
    for t, token in enumerate(tokens):
        x = 7**0.5 * model.tgt_embedding.weight[token]
        for number, layer in enumerate(model.decoder):
            w, u, b, b_u = layer.parameters()
            if number == 0 and attention.order == "bahdanau":
                context = look(model, layers[-1][0], states, t, coverage)
                w, x = torch.cat((w, model.get_parameter("context_gates.weight")), 1), torch.cat((x, context))
            elif number == 0 and attention.input_feeding:
                w, x = torch.cat((w, model.get_parameter("context_gates.weight")), 1), torch.cat((x, attentional))
            layers[number] = advance(w @ x + b, u @ layers[number][0] + b_u, layers[number])
            x = layers[number][0] + x if config.residual and number else layers[number][0]
        if attention.score == "none":
            attentional = x
        else:
            if attention.order == "luong":
                context = look(model, x, states, t, coverage)
            attentional = (model.combine.weight @ torch.cat((context, x))).tanh()
        logits.append(model.output.weight @ model.readout.weight @ attentional + model.output_bias)
    return logits


@pytest.mark.parametrize(("cell", "layers", "residual"), [("tanh", 1, False), ("lstm", 2, False), ("gru", 3, True)])
@pytest.mark.parametrize(
    "attention", ATTENTIONS, ids=lambda a: f"{a.order}-{a.score}-{a.reach}-{a.input_feeding}-{a.coverage}"
)
def test_decoder_equals_its_equations(cell: str, layers: int, residual: bool, attention: AttentionConfig) -> None:
    config = replace(CONFIG, cell=cell, layers=layers, residual=residual, attention=attention)
    model, (src, mask) = built(config), batch()
    tgt = torch.randint(PAD + 1, V, (B, T))
    memory = model.encode(src, mask)
    assert memory.final is not None
    logits = model.decode(tgt, memory).logits
    for row, length in enumerate(LENGTHS):
        finals = [part[row] for part in memory.final]
        expected = equations(model, memory.states[row, :length], finals, tgt[row].tolist())
        assert_close(logits[row], torch.stack(expected), atol=1e-10, rtol=0)


@pytest.mark.parametrize("cell", TORCH)
def test_residual_layers_add_what_they_read(cell: str) -> None:
    model, (src, mask) = built(replace(CONFIG, cell=cell, layers=3, residual=True)), batch()
    memory = model.encode(src, mask)
    for row, length in enumerate(LENGTHS):
        x = 7**0.5 * model.src_embedding.weight[src[row : row + 1, :length]]
        for number, both in enumerate(model.encoder.layers):
            forwards, backwards = [direction.layer for direction in cast(nn.ModuleList, both)]
            read = torch.cat((forwards(x)[0], backwards(x.flip(1))[0].flip(1)), 2)
            x = x + read if number else read
        assert_close(memory.states[row, :length], x[0])


@pytest.mark.parametrize("bidirectional", [True, False])
def test_forget_gates_start_open(bidirectional: bool) -> None:
    """1 above torch's U(−k, k), k = 1/√width, in one of the two biases that are added; all others as torch has them."""
    model = build_model(replace(CONFIG, bidirectional=bidirectional), src_vocab=V, tgt_vocab=V, joint=True)
    recurrent = [module for module in model.modules() if isinstance(module, nn.LSTM)]
    assert len(recurrent) == (6 if bidirectional else 4)
    for module in recurrent:
        width = module.hidden_size
        biases = {path: bias for path, bias in module.named_parameters() if path.startswith("bias")}
        for path, bias in biases.items():
            bound = width**-0.5
            for gate, values in zip("ifgo", bias.chunk(4), strict=True):
                middle = 1.0 if gate == "f" and path.startswith("bias_hh") else 0.0
                assert ((values - middle).abs() <= bound).all(), (path, gate)


def test_gru_starts_as_torch_has_it() -> None:
    encoder = Encoder(replace(CONFIG, cell="gru"))
    assert all((parameter.abs() <= 11**-0.5).all() for parameter in encoder.parameters())
