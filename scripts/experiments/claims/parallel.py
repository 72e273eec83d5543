"""Claim: self-attention is parallel, and costs n²."""

from dataclasses import replace
from functools import partial

import architectures
import numpy as np
import torch
from torch import Tensor, nn

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs
from experiments.timing import fastest_seconds, one_thread, saved_bytes
from heed.models import build_model
from heed.models.seq2seq import ModelConfig, Seq2Seq

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
VOCABULARY = 1000
WIDTH = 128


def models() -> dict[str, Seq2Seq]:
    """Build RNNs with and without attention and a transformer, of the same width and about the same size."""
    rnn = replace(architectures.RNN, d_embedding=WIDTH, d_model=2 * WIDTH)
    no_attention = replace(rnn.attention, score="none", input_feeding=False)
    configs: dict[str, ModelConfig] = {
        "RNN": replace(rnn, attention=no_attention),
        "RNN + attention": rnn,
        "transformer": replace(architectures.TRANSFORMER, d_model=WIDTH, d_ff=2 * WIDTH),
    }
    return {
        name: build_model(config, src_vocab=VOCABULARY, tgt_vocab=VOCABULARY, joint=True)
        for name, config in configs.items()
    }


def loss(model: Seq2Seq, length: int, *, maps: bool) -> Tensor:
    """Return the loss of one random pair of sentences with ``length`` tokens each.

    Args:
        maps: compute attention by the plain formula, which stores the weights, instead of a fused kernel.
    """
    ids = torch.randint(4, VOCABULARY, (1, length))
    memory = model.encode(ids, torch.ones_like(ids, dtype=torch.bool), maps=maps)
    return nn.functional.cross_entropy(model.decode(ids, memory, maps=maps).logits[0], ids[0])


def _forward_and_backward(model: Seq2Seq, length: int) -> None:
    torch.autograd.backward(loss(model, length, maps=False))


def exponent(values: list[float]) -> float:
    """Return b of values ∝ length^b, fitted to the last three lengths."""
    return float(np.polyfit(np.log(LENGTHS[-3:]), np.log(values[-3:]), 1)[0])


def experiment(runs: Runs) -> Finding:
    """Measure time and memory of each model by length."""
    torch.manual_seed(0)
    times: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    with one_thread():
        for name, model in models().items():
            variants = {name: False, "… weights kept": True} if name == "transformer" else {name: False}
            times[name] = [fastest_seconds(partial(_forward_and_backward, model, n)) for n in LENGTHS]
            for variant, maps in variants.items():
                parameters = sum(p.numel() * p.element_size() for p in model.parameters())
                memory[variant] = [float(saved_bytes(partial(loss, model, n, maps=maps)) - parameters) for n in LENGTHS]
    time = {name: exponent(values) for name, values in times.items()}
    space = {name: exponent(values) for name, values in memory.items()}
    ratio = [rnn / own for rnn, own in zip(times["RNN + attention"], times["transformer"], strict=True)]
    return Finding(
        held=(max(ratio[:4]) > 1 and time["transformer"] > time["RNN"] + 0.2 and space["… weights kept"] > 1.7),
        summary=(
            f"On one core and one sentence, the transformer is {ratio[2]:.1f} times as fast as the RNN with attention "
            f"at {LENGTHS[2]} tokens and {ratio[-1]:.1f} times at {LENGTHS[-1]:,}. From {LENGTHS[-3]} tokens on, time "
            f"grows like n^{time['transformer']:.2f} (transformer), "
            f"n^{time['RNN + attention']:.2f} (RNN with attention) and n^{time['RNN']:.2f} (RNN "
            f"without attention); memory like n^{space['… weights kept']:.2f} (transformer, plain "
            f"attention), n^{space['transformer']:.2f} (transformer, fused attention) and "
            f"n^{space['RNN']:.2f} (RNN without attention)."
        ),
        numbers={
            "lengths": list(LENGTHS),
            "seconds": times,
            "bytes": memory,
            "time exponent": time,
            "memory exponent": space,
        },
        table=[
            Figure(f"speed of a transformer at {LENGTHS[2]} tokens, relative to an RNN with attention", [ratio[2]]),
            Figure(f"exponent of time from {LENGTHS[-3]} tokens on, transformer", [time["transformer"]], ".2f"),
            Figure("exponent of time, recurrence alone", [time["RNN"]], ".2f"),
            Figure("exponent of memory, attention weights", [space["… weights kept"]], ".2f"),
            Figure("exponent of memory, fused attention", [space["transformer"]], ".2f"),
            Figure("exponent of memory, recurrence alone", [space["RNN"]], ".2f"),
        ],
    )


CLAIM = Claim(
    name="parallel",
    claim="Self-attention is parallel; it costs n².",
    measurement=(
        "Time of the forward and backward pass, and memory saved between them, by length n; exponents are fitted to "
        "the last three lengths. The claim holds if the transformer is faster than an RNN with attention at short "
        "lengths, if its time grows with an exponent at least 0.2 larger than an RNN without attention, and if "
        "the memory of attention weights grows with an exponent above 1.7 (Vaswani et al. 2017, table 1)."
    ),
    models={},
    experiment=experiment,
)
