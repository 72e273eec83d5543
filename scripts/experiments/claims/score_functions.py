"""Claim: dot-product scores are faster than additive ones, at equal quality."""

from collections.abc import Mapping
from functools import partial
from statistics import median

import torch
from torch import nn

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, bleu
from experiments.small_models import RNN, small
from experiments.timing import fastest_seconds, one_thread
from heed.functional.attention import masked_softmax
from heed.layers.attention_scores import SCORES, ScoreOptions
from heed.models.seq2seq import Seq2Seq

LENGTHS = (10, 20, 40, 80, 160)
BATCH, WIDTH = 32, 256
SENTENCE = 14
"""Source and target tokens of a typical sentence of the corpus."""
ROUNDS = 15


def milliseconds(kind: str, length: int) -> float:
    """Time of attention from ``length`` target to ``length`` source positions, forward and backward."""
    torch.manual_seed(0)
    score = SCORES[kind](ScoreOptions(query_width=WIDTH, state_width=WIDTH))
    states, queries = (torch.randn(BATCH, length, WIDTH, requires_grad=True) for _ in range(2))
    mask = torch.ones(BATCH, length, dtype=torch.bool)
    allowed = torch.ones(BATCH, length, length, dtype=torch.bool)

    def attend() -> None:
        weights = masked_softmax(score(queries, score.project(states, mask)), allowed)
        torch.autograd.backward((weights @ states).sum())

    return 1000 * fastest_seconds(attend)


def tokens_per_second(models: Mapping[str, Seq2Seq]) -> dict[str, float]:
    """Return the source and target tokens per second of each model, forward and backward: the median of `ROUNDS`.

    The models are timed in turns, so that other load on the machine affects all of them.
    """
    ids = torch.randint(4, 500, (BATCH, SENTENCE))
    mask = torch.ones_like(ids, dtype=torch.bool)

    def forward_and_backward(model: Seq2Seq) -> None:
        logits = model(ids, mask, ids)
        torch.autograd.backward(nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()))

    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            seconds[name].append(fastest_seconds(partial(forward_and_backward, model)))
    return {name: 2 * ids.numel() / median(times) for name, times in seconds.items()}


def experiment(runs: Runs) -> Finding:
    """Measure speed and BLEU of each score function."""
    with one_thread():
        times = {kind: [milliseconds(kind, length) for length in LENGTHS] for kind in runs}
        speed = tokens_per_second({kind: seeds[0].model for kind, seeds in runs.items()})
    scores = bleu(runs, "test")
    ratio = [additive / dot for dot, additive in zip(times["dot"], times["additive"], strict=True)]
    return Finding(
        held=min(ratio) > 1 and speed["dot"] > speed["additive"] and scores["additive"].mean - scores["dot"].mean < 1,
        summary=(
            f"Attention with dot scores takes 1/{ratio[1]:.0f} of the time of additive scores at {LENGTHS[1]} tokens "
            f"and 1/{ratio[-1]:.0f} at {LENGTHS[-1]}. The whole model trains at {speed['dot']:,.0f} tokens per second "
            f"with dot, {speed['general']:,.0f} with general and {speed['additive']:,.0f} with additive scores. Test "
            f"BLEU: dot {scores['dot']:.1f}, general {scores['general']:.1f}, additive {scores['additive']:.1f}."
        ),
        numbers={"milliseconds": times, "lengths": LENGTHS, "test bleu": scores, "tokens per second": speed},
        table=[
            *(
                Figure(f"speed of the dot score alone, relative to additive, {length} tokens", [times_faster])
                for length, times_faster in zip(LENGTHS, ratio, strict=True)
            ),
            Figure("speed of training, relative to additive", [speed["dot"] / speed["additive"]], ".2f"),
            *(Figure(f"BLEU, {kind}", of) for kind, of in scores.items()),
        ],
    )


CLAIM = Claim(
    name="score_functions",
    claim="Dot products are faster than additive scores, at equal quality.",
    measurement=(
        "Time of attention alone and of training, and test BLEU, of RNNs that differ only in the score function. The "
        "claim holds if dot is faster in both and less than 1 BLEU worse (Luong et al. 2015; Vaswani et al. 2017, "
        "§3.2.1)."
    ),
    # All in Luong's order with input feeding, so that only the score function differs.
    models={
        "dot": small("rnn", "rnn-dot", "model/attention=dot"),
        "general": RNN,
        "additive": small(
            "rnn",
            "rnn-additive",
            "model/attention=additive",
            "model.attention.order=luong",
            "model.attention.input_feeding=true",
        ),
    },
    experiment=experiment,
)
