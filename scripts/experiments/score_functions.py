"""Luong's multiplicative scores against Bahdanau's additive one."""

from collections.abc import Mapping
from functools import partial
from statistics import median

import torch
from torch import nn

from experiments.claim import Claim, Finding
from experiments.cost import one_thread, seconds
from experiments.laboratory import Laboratory, shown, spread
from experiments.plots import Line, line_plot, table
from experiments.recipes import RNN, small
from heed.functional.masks import masked_softmax
from heed.layers.scores import build_score_function
from heed.models.seq2seq import Seq2Seq

KINDS = {
    "dot": small("rnn", "rnn-dot", "model/attention=dot"),
    "general": RNN,
    "additive": small(
        "rnn",
        "rnn-additive",
        "model/attention=additive",
        "model.attention.order=luong",
        "model.attention.input_feeding=true",
    ),
}
"""All in Luong's order with input feeding, so that they differ in the score alone."""

LENGTHS = (10, 20, 40, 80, 160)
BATCH, WIDTH = 32, 256
SENTENCE = 14
"""Tokens of a usual sentence of the corpus, on either side."""
ROUNDS = 15


def milliseconds(kind: str, length: int) -> float:
    """To attend from as many target as source positions, forward and backward."""
    torch.manual_seed(0)
    score = build_score_function(kind, query_width=WIDTH, state_width=WIDTH, max_source=None, coverage=False)
    states, queries = (torch.randn(BATCH, length, WIDTH, requires_grad=True) for _ in range(2))
    mask = torch.ones(BATCH, length, dtype=torch.bool)
    everything = torch.ones(BATCH, length, length, dtype=torch.bool)

    def attend() -> None:
        weights = masked_softmax(score(queries, score.project(states, mask)), everything)
        torch.autograd.backward((weights @ states).sum())

    return 1000 * seconds(attend)


def tokens_per_second(models: Mapping[str, Seq2Seq]) -> dict[str, float]:
    """Source and target tokens that each model learns from, forward and backward of whole batches; a median.

    The models take turns, so that whatever else slows the machine down slows all of them.
    """
    ids = torch.randint(4, 500, (BATCH, SENTENCE))
    mask = torch.ones_like(ids, dtype=torch.bool)

    def learn(model: Seq2Seq) -> None:
        logits = model(ids, mask, ids)
        torch.autograd.backward(nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()))

    taken: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            taken[name].append(seconds(partial(learn, model)))
    return {name: 2 * ids.numel() / median(times) for name, times in taken.items()}


def experiment(laboratory: Laboratory) -> Finding:
    with one_thread():
        times = {kind: [milliseconds(kind, length) for length in LENGTHS] for kind in KINDS}
        speed = tokens_per_second({kind: laboratory.runs(recipe)[0].model for kind, recipe in KINDS.items()})
    runs = {kind: laboratory.runs(recipe) for kind, recipe in KINDS.items()}
    bleu = {kind: spread(run.bleu("test") for run in runs[kind]) for kind in KINDS}
    ratio = [additive / dot for dot, additive in zip(times["dot"], times["additive"], strict=True)]
    lost = bleu["additive"]["mean"] - bleu["dot"]["mean"]
    return Finding(
        held=min(ratio) > 1 and speed["dot"] > speed["additive"] and lost < 1,
        summary=(
            f"Attention with dot scores takes 1/{ratio[1]:.0f} of the time of additive ones at {LENGTHS[1]} tokens and "
            f"1/{ratio[-1]:.0f} at {LENGTHS[-1]}; the whole model trains with {speed['dot']:,.0f} tokens a "
            f"second against {speed['additive']:,.0f} (general: {speed['general']:,.0f}). Test BLEU: "
            f"dot {shown(bleu['dot'])}, general {shown(bleu['general'])}, additive {shown(bleu['additive'])}."
        ),
        numbers={"milliseconds": times, "lengths": list(LENGTHS), "test bleu": bleu, "tokens per second": speed},
        figures=[
            line_plot(
                [Line(kind, list(zip(LENGTHS, values, strict=True))) for kind, values in times.items()],
                name="Time of attention against length",
                x="tokens on either side",
                y=f"milliseconds of attention, forward and backward, {BATCH} sentences, width {WIDTH}, one core",
                log_x=True,
                log_y=True,
            ),
            table(
                ["score", "test BLEU", "training, tokens a second on one core (forward and backward)"],
                [[kind, shown(bleu[kind]), f"{speed[kind]:,.0f}"] for kind in KINDS],
            ),
        ],
    )


CLAIM = Claim(
    name="score_functions",
    claim="Dot products are faster than additive scores, at equal quality.",
    measurement=(
        "Time of attention alone and of training, and test BLEU, of an RNN with each score function and nothing else "
        "changed. It holds if dot is faster in both and less than 1 BLEU worse (Luong et al. 2015; Vaswani et al. "
        "2017, §3.2.1)."
    ),
    recipes=tuple(KINDS.values()),
    experiment=experiment,
)
