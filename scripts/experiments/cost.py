"""What a longer sentence costs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory
from experiments.plots import Line, caption, line_plot, table
from heed.layers.attention import SelfAttentionConfig
from heed.layers.positions import PositionsConfig
from heed.models import build_model
from heed.models.rnn_config import AttentionConfig, RNNConfig
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer_config import TransformerConfig

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
VOCABULARY = 1000
WIDTH = 128


def models() -> dict[str, Seq2Seq]:
    """RNNs with attention and without, and a transformer, of one width and about one size."""
    rnn = RNNConfig(
        cell="lstm",
        d_embedding=WIDTH,
        d_model=2 * WIDTH,
        layers=1,
        residual=False,
        bidirectional=True,
        dropout=0.0,
        dropout_kind="standard",
        tie_embeddings=True,
        attention=AttentionConfig(
            score="general",
            reach="global",
            window=None,
            order="luong",
            input_feeding=True,
            coverage=False,
            max_source=None,
        ),
    )
    transformer = TransformerConfig(
        d_model=WIDTH,
        num_heads=4,
        d_ff=2 * WIDTH,
        encoder_layers=3,
        decoder_layers=3,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        layer_dropout=0.0,
        norm="pre",
        norm_kind="layer",
        residual=True,
        activation="relu",
        tie_embeddings=True,
        self_attention=SelfAttentionConfig(kind="qkv", scaled=True),
        positions=PositionsConfig(kind="sinusoidal", merge="add", max_length=None),
    )
    alone = replace(rnn, attention=replace(rnn.attention, score="none", input_feeding=False))
    built = {"RNN": alone, "RNN + attention": rnn, "transformer": transformer}
    return {
        name: build_model(config, src_vocab=VOCABULARY, tgt_vocab=VOCABULARY, joint=True)
        for name, config in built.items()
    }


def loss(model: Seq2Seq, length: int, *, maps: bool) -> Tensor:
    """Of one random sentence with so many tokens on either side. With ``maps`` attention is computed as it is written,
    weights and all, and not by a fused kernel."""
    ids = torch.randint(4, VOCABULARY, (1, length))
    memory = model.encode(ids, torch.ones_like(ids, dtype=torch.bool), maps=maps)
    return nn.functional.cross_entropy(model.decode(ids, memory, maps=maps).logits[0], ids[0])


def _forward_and_backward(model: Seq2Seq, length: int) -> None:
    torch.autograd.backward(loss(model, length, maps=False))


@contextmanager
def one_thread() -> Iterator[None]:
    """Times inside are of one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds(do: Callable[[], None]) -> float:
    """The fastest of some runs; of more, where they are short."""
    do()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 0.3 and len(times) < 20):
        start = time.perf_counter()
        do()
        times.append(time.perf_counter() - start)
        if sum(times) > 10:
            break
    return min(times)


def saved_bytes(make: Callable[[], Tensor]) -> int:
    """What forward keeps for backward: the size of all distinct tensors that autograd saves."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        kept = make()  # alive while the sizes are taken, so that no address is used twice
        total = sum(sizes.values())
    del kept
    return total


def exponent(values: list[float]) -> float:
    """b of values ∝ length^b, by a line through the logarithms of the last three."""
    return float(np.polyfit(np.log(LENGTHS[-3:]), np.log(values[-3:]), 1)[0])


def experiment(laboratory: Laboratory) -> Finding:
    torch.manual_seed(0)
    times: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    with one_thread():
        for name, model in models().items():
            variants = {name: False, "… weights kept": True} if name == "transformer" else {name: False}
            times[name] = [seconds(partial(_forward_and_backward, model, n)) for n in LENGTHS]
            for variant, maps in variants.items():
                parameters = sum(p.numel() * p.element_size() for p in model.parameters())
                memory[variant] = [float(saved_bytes(partial(loss, model, n, maps=maps)) - parameters) for n in LENGTHS]
    time_exponents = {name: exponent(values) for name, values in times.items()}
    memory_exponents = {name: exponent(values) for name, values in memory.items()}
    ratio = [rnn / own for rnn, own in zip(times["RNN + attention"], times["transformer"], strict=True)]
    return Finding(
        held=(
            max(ratio[:4]) > 1
            and time_exponents["transformer"] > time_exponents["RNN"] + 0.2
            and memory_exponents["… weights kept"] > 1.7
        ),
        summary=(
            f"At {LENGTHS[2]} tokens the transformer is {ratio[2]:.1f} times as fast as the RNN with attention, on one "
            f"core and batches of one, at {LENGTHS[-1]:,} tokens {ratio[-1]:.1f} times. Beyond {LENGTHS[-3]} tokens "
            f"its time grows with the length to the power of {time_exponents['transformer']:.2f}, that RNN's with "
            f"{time_exponents['RNN + attention']:.2f}, recurrence alone with {time_exponents['RNN']:.2f}. "
            f"Memory: {memory_exponents['… weights kept']:.2f} where attention weights are kept, "
            f"{memory_exponents['transformer']:.2f} with a fused kernel that never forms them, recurrence alone "
            f"{memory_exponents['RNN']:.2f}."
        ),
        numbers={
            "lengths": list(LENGTHS),
            "seconds": times,
            "bytes": memory,
            "time exponent": time_exponents,
            "memory exponent": memory_exponents,
        },
        figures=[
            line_plot(
                [Line(name, list(zip(LENGTHS, values, strict=True))) for name, values in times.items()],
                name="Seconds against length",
                x="tokens on either side",
                y="seconds for forward and backward of one sentence, one core",
                log_x=True,
                log_y=True,
            ),
            line_plot(
                [
                    Line(name, [(n, value / 2**20) for n, value in zip(LENGTHS, values, strict=True)])
                    for name, values in memory.items()
                ],
                name="Memory against length",
                x="tokens on either side",
                y="MiB that forward keeps for backward",
                log_x=True,
                log_y=True,
            ),
            caption("What must wait for what, at n source and n target tokens"),
            table(
                ["", "steps that must follow each other", "time ∝ n^b, b =", "memory ∝ n^b, b ="],
                [
                    *(
                        [name, "2n", f"{time_exponents[name]:.2f}", f"{memory_exponents[name]:.2f}"]
                        for name in ("RNN", "RNN + attention")
                    ),
                    [
                        "transformer",
                        "6 layers, whatever n",
                        f"{time_exponents['transformer']:.2f}",
                        f"{memory_exponents['… weights kept']:.2f} (fused: {memory_exponents['transformer']:.2f})",
                    ],
                ],
            ),
        ],
    )


CLAIM = Claim(
    name="parallel",
    claim="Self-attention is parallel; it costs n².",
    measurement=(
        "Time of forward and backward, and memory kept between them, against the length n, with the exponents of the "
        "last three lengths. It holds if the transformer is faster than an RNN with attention at short lengths, its "
        "time grows with a clearly larger exponent than recurrence alone, and the memory of attention weights grows "
        "like n² (Vaswani et al. 2017, table 1)."
    ),
    recipes=(),
    experiment=experiment,
)
