"""heed's own blocks pass the checks of the exercises, which compare them with the published solutions."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heed import functional, kernels
from heed.decoding import BeamSearch
from heed.decoding.beam import Beams
from heed.evaluation.scores import sacrebleu_metrics
from heed.functional.recurrence import lstm
from heed.layers.attention import KeyValue, MultiHeadAttention
from heed.layers.attention_scores import AdditiveScore, GeneralScore, ScoreOptions
from heed.layers.positions import RelativePositions, RotaryPositions, SinusoidalPositions
from heed.models.rnn import RNN, RNNState, SourceMemory
from heed.models.rnn_config import AttentionConfig, RNNConfig
from heed.models.seq2seq import DecoderHidden
from heed.symbols import BOS, PAD
from heed.training.schedules import InverseSquareRoot
from heed_exercises import EXERCISES, check
from heed_exercises.exercise import Decoder


def set_weight(module: nn.Module, weight: Tensor) -> None:
    """Replace a weight by a tensor, which then has a gradient."""
    del module.weight
    module.weight = weight


def luong_general(query: Tensor, states: Tensor, W: Tensor) -> Tensor:
    score = GeneralScore(ScoreOptions(query_width=query.shape[2], state_width=states.shape[2]))
    set_weight(score.weight, W)
    return score(query, score.project(states))


def bahdanau_additive(query: Tensor, states: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    score = AdditiveScore(ScoreOptions(query_width=query.shape[2], state_width=states.shape[2]))
    for module, weight in ((score.query, W), (score.state, U), (score.v, v[None])):
        set_weight(module, weight)
    return score(query, score.project(states))


def heads(number: int, width: int) -> MultiHeadAttention:
    """Multi-head attention whose projections are identities."""
    positions = RelativePositions()
    attention = MultiHeadAttention(
        d_model=width, num_heads=number, score="scaled_dot", dropout=0.0, positions=positions
    )
    with torch.no_grad():
        attention.key_value.weight.copy_(torch.eye(width).repeat(2, 1))
        attention.output.weight.copy_(torch.eye(width))
    return attention


def split_heads(x: Tensor, number: int) -> Tensor:
    return heads(number, x.shape[2]).project(x).key


def merge_heads(x: Tensor) -> Tensor:
    B, H, N, E = x.shape
    only_itself = torch.eye(N, dtype=torch.bool)[None, None]
    return heads(H, H * E)(torch.randn(B, N, H * E), KeyValue(torch.randn(B, H, N, E), x), only_itself)[0]


def sinusoidal_positions(length: int, width: int) -> Tensor:
    return SinusoidalPositions(d_model=width, merge="add", max_length=None).vectors(0, length)


def rotary_positions(x: Tensor, start: int) -> Tensor:
    return RotaryPositions(num_heads=x.shape[1], width=x.shape[3], causal=True).rotate(x, start)


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return lstm(F.linear(x, W, b), F.linear(h, U), (h, c))


def input_feeding(x: Tensor, h: Tensor, states: Tensor, cell: nn.GRUCell, W_c: Tensor) -> Tensor:
    (B, S, D), width = states.shape, x.shape[2]
    attention = AttentionConfig(score="dot", reach="global", window=None, order="luong", input_feeding=True,
                                max_source=None, coverage=False)  # fmt: skip
    config = RNNConfig(cell="gru", d_embedding=width, d_model=D, layers=1, residual=False, bidirectional=False,
                       reverse_source=False, dropout=0.0, tie_embeddings=False,
                       attention=attention)  # fmt: skip
    model = RNN(config, src_vocab=7, tgt_vocab=7, joint=False)
    weights = cell.state_dict()
    of_embeddings, of_feed = weights["weight_ih"].split((width, D), 1)
    model.decoder[0].layer.load_state_dict(
        {f"{name}_l0": weight for name, weight in {**weights, "weight_ih": of_embeddings}.items()}
    )
    set_weight(model.context_gates, of_feed)
    set_weight(model.combine, W_c)
    state = RNNState(
        layers=((h,),),
        input_feed=torch.zeros(B, D),
        coverage=torch.zeros(B, S),
        length=0,
        source=SourceMemory(states, states, torch.ones(B, S, dtype=torch.bool)),
    )
    return model._run_steps(x, state, None)[0]


def teacher_forcing(target: Tensor, step: Decoder, state: Tensor) -> Tensor:
    """All positions at once, with the loss of training."""
    gru = nn.GRU(step.cell.input_size, step.cell.hidden_size, batch_first=True)
    gru.load_state_dict({f"{name}_l0": weight for name, weight in step.cell.state_dict().items()})
    hidden, _ = gru(step.embedding(F.pad(target[:, :-1], (1, 0), value=BOS)), state[None])
    positions = (target.flatten() != PAD).nonzero()[:, 0]
    output = DecoderHidden(hidden, step.output.weight, step.output.bias)
    return output.loss(target, positions, label_smoothing=0.0)[0] / len(positions)


def label_smoothing(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    N, V = logits.shape
    return DecoderHidden(logits, torch.eye(V)).loss(target, torch.arange(N), label_smoothing=epsilon)[0]


def warmup_schedule(step: int, warmup_steps: int, d_model: int) -> float:
    """In the paper steps are counted from 1, and the peak follows from the width."""
    return (d_model * warmup_steps) ** -0.5 * InverseSquareRoot(warmup_steps=warmup_steps)(step - 1)


def beam_step(scores: Tensor, log_probs: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    rows = torch.zeros(len(scores), dtype=torch.long)
    beams = Beams(torch.zeros(scores.shape, dtype=torch.long), scores, torch.zeros(len(scores), 1), rows, torch.ones(1))
    beams, parent = beams.extend(log_probs.flatten(0, 1), beam)
    return beams.log_prob, parent, beams.token


def length_penalty(log_prob: float, length: int, alpha: float) -> float:
    search = BeamSearch(beam=1, length_penalty=alpha, n_best=1, max_length_factor=1.0, max_length_extra=0)
    return log_prob / search._penalties(length, torch.device("cpu"))[length].item()


def brevity_penalty(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    bleu, _ = sacrebleu_metrics("", tokenize="none")
    lines = [[" ".join(words) for words in sentences] for sentences in (hypotheses, references)]
    return float(bleu.corpus_score(lines[0], [lines[1]]).bp)


BLOCKS: dict[str, Callable[..., Any]] = {
    block.__name__: block
    for block in (
        luong_general, bahdanau_additive, split_heads, merge_heads, sinusoidal_positions, rotary_positions, lstm_cell,
        input_feeding, teacher_forcing, label_smoothing, warmup_schedule, beam_step, length_penalty, brevity_penalty,
    )
}  # fmt: skip
FUNCTIONS = ("masked_softmax", "attend")
"""Exercises whose blocks are functions of the same name in both packages of formulas."""


@pytest.mark.parametrize("name", BLOCKS)
def test_block(name: str) -> None:
    check(name, BLOCKS[name])


@pytest.mark.parametrize("package", [functional, kernels], ids=lambda package: package.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, package: ModuleType) -> None:
    check(name, getattr(package, name))


def test_every_exercise_has_a_block() -> None:
    assert {*BLOCKS, *FUNCTIONS} == {*EXERCISES}
