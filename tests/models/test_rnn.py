"""The RNN against torch's recurrent layers on one sentence at a time, and against its equations written out."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from heed.layers.scores import AdditiveScore, GeneralScore
from heed.models.rnn import RNN, AttentionConfig, Encoder, RNNConfig
from heed.symbols import PAD

B, S, T, V = 3, 7, 5, 29
LENGTHS = (4, 7, 1)

CONFIG = RNNConfig(
    cell="lstm",
    d_embedding=7,
    d_model=22,
    layers=2,
    bidirectional=True,
    dropout=0.1,
    tie_embeddings=True,
    attention=AttentionConfig(score="general", order="luong", input_feeding=True),
)
ATTENTIONS = [
    AttentionConfig(score="general", order="luong", input_feeding=True),
    AttentionConfig(score="concat", order="luong", input_feeding=True),
    AttentionConfig(score="dot", order="luong", input_feeding=False),
    AttentionConfig(score="scaled_dot", order="luong", input_feeding=False),
    AttentionConfig(score="additive", order="bahdanau", input_feeding=False),
    AttentionConfig(score="general", order="bahdanau", input_feeding=False),
    AttentionConfig(score="none", order="luong", input_feeding=False),
]

cells = pytest.mark.parametrize(("cell", "layers"), [*product(("lstm", "gru"), (1, 2))])


def built(config: RNNConfig) -> RNN:
    """With all weights random, biases too."""
    model = config.build(src_vocab=V, tgt_vocab=V, joint=True)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def batch() -> tuple[Tensor, Tensor]:
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(PAD + 1, V, (B, S)).masked_fill(~mask, PAD), mask


@cells
@pytest.mark.parametrize("bidirectional", [True, False])
def test_encoder_equals_torch_on_each_sentence_alone(cell: str, layers: int, bidirectional: bool) -> None:
    model = built(replace(CONFIG, cell=cell, layers=layers, bidirectional=bidirectional))
    directions = 2 if bidirectional else 1
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](
        7, 22 // directions, layers, bidirectional=bidirectional, batch_first=True
    )
    theirs.load_state_dict(
        {
            weight.replace("_l0", f"_l{number}"): value
            for number, layer in enumerate(model.encoder.layers)
            for weight, value in layer.state_dict().items()
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


def test_each_direction_hands_over_the_state_it_ended_in() -> None:
    """Forwards behind the last word, backwards behind the first: and each decoder layer starts from its own layer."""
    model, (src, mask) = built(CONFIG), batch()
    memory = model.encode(src, mask)
    (_, _), (top_h, _) = model.start(memory).layers
    last = mask.sum(1) - 1
    forwards, backwards = memory.states[torch.arange(B), last, :11], memory.states[:, 0, 11:]
    assert_close(top_h, torch.cat((forwards, backwards), 1))


def lstm(cell: nn.Module, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c') (Hochreiter & Schmidhuber 1997, with the forget gate of 2000)."""
    weights = dict(cell.named_parameters())
    h, c = state
    i, f, g, o = (weights["weight_ih"] @ x + weights["bias_ih"] + weights["weight_hh"] @ h + weights["bias_hh"]).chunk(
        4
    )
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(cell: nn.Module, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """h' = (1 − z) n + z h (Cho et al. 2014; the reset gate inside, behind the matrix, as in cuDNN)."""
    weights = dict(cell.named_parameters())
    (h,) = state
    r, z, n = (weights["weight_ih"] @ x + weights["bias_ih"]).chunk(3)
    r_h, z_h, n_h = (weights["weight_hh"] @ h + weights["bias_hh"]).chunk(3)
    r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
    return ((1 - z) * (n + r * n_h).tanh() + z * h,)


def look(model: RNN, h: Tensor, states: Tensor) -> Tensor:
    """c_t = Σ_s a_t(s) h_s over the states of one sentence."""
    match model.config.attention.score, model.score:
        case "dot", _:
            scores = [h @ state for state in states]
        case "scaled_dot", _:
            scores = [h @ state / 22**0.5 for state in states]
        case "general", GeneralScore() as score:
            scores = [h @ score.weight.weight @ state for state in states]
        case (("concat" | "additive"), AdditiveScore() as score):
            scores = [score.v.weight[0] @ (score.query.weight @ h + score.state.weight @ s).tanh() for s in states]
        case other:
            raise AssertionError(other)
    return sum((a * state for a, state in zip(torch.stack(scores).softmax(0), states, strict=True)), torch.zeros(22))


def equations(model: RNN, states: Tensor, finals: list[Tensor], tokens: list[int]) -> list[Tensor]:
    """The logits of one sentence, token by token, as the papers write them.

    Luong et al. 2015, §3.1 and §3.3: [E y; h̃_{t-1}] → h_t → c_t → h̃_t = tanh(W_c [c_t; h_t]).
    Bahdanau et al. 2015, §3.1: s_{t-1} → c_t, [E y; c_t] → s_t.
    """
    attention = model.config.attention
    advance = {"lstm": lstm, "gru": gru}[model.config.cell]
    parts = 2 if model.config.cell == "lstm" else 1
    layers = [tuple(finals[i : i + parts]) for i in range(0, len(finals), parts)]
    attentional, logits = torch.zeros(22), []
    for token in tokens:
        x = 7**0.5 * model.tgt_embedding.weight[token]
        if attention.order == "bahdanau":
            context = look(model, layers[-1][0], states)
            x = torch.cat((x, context))
        elif attention.input_feeding:
            x = torch.cat((x, attentional))
        for number, cell in enumerate(model.cells):
            layers[number] = advance(cell, x, layers[number])
            x = layers[number][0]
        if attention.score == "none":
            attentional = x
        else:
            if attention.order == "luong":
                context = look(model, x, states)
            attentional = (model.combine.weight @ torch.cat((context, x))).tanh()
        logits.append(model.output.weight @ model.readout.weight @ attentional + model.output_bias)
    return logits


@cells
@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda a: f"{a.order}-{a.score}-{a.input_feeding}")
def test_decoder_equals_its_equations(cell: str, layers: int, attention: AttentionConfig) -> None:
    model, (src, mask) = built(replace(CONFIG, cell=cell, layers=layers, attention=attention)), batch()
    tgt = torch.randint(PAD + 1, V, (B, T))
    memory = model.encode(src, mask)
    assert memory.final is not None
    logits = model.decode(tgt, memory).logits
    for row, length in enumerate(LENGTHS):
        finals = [part[row] for part in memory.final]
        expected = equations(model, memory.states[row, :length], finals, tgt[row].tolist())
        assert_close(logits[row], torch.stack(expected), atol=1e-10, rtol=0)


def test_without_attention_only_the_final_state_reaches_the_decoder() -> None:
    model = built(replace(CONFIG, attention=AttentionConfig(score="none", order="luong", input_feeding=False)))
    src, mask = batch()
    memory, tgt = model.encode(src, mask), torch.randint(V, (B, T))
    elsewhere = replace(memory, states=torch.randn_like(memory.states))
    assert_close(model.decode(tgt, elsewhere).logits, model.decode(tgt, memory).logits, atol=0, rtol=0)
    assert memory.final is not None
    other = replace(memory, final=tuple(part + 1 for part in memory.final))
    assert not torch.allclose(model.decode(tgt, other).logits, model.decode(tgt, memory).logits)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_forget_gates_start_open(bidirectional: bool) -> None:
    """1 above torch's U(−k, k), k = 1/√width, in one of the two biases that are added; all others as torch has them."""
    model = replace(CONFIG, bidirectional=bidirectional).build(src_vocab=V, tgt_vocab=V, joint=True)
    recurrent = [module for module in model.modules() if isinstance(module, nn.LSTM | nn.LSTMCell)]
    assert len(recurrent) == 4
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
