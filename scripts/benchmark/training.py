"""``benchmark train``: heed's training, run by Lightning, against peers that take the same optimizer steps in turn."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from benchmark import torch_peer
from benchmark.marian import MarianTraining
from benchmark.matmul import record_products, time_products
from benchmark.measure import peak_mib, rows
from benchmark.peers import UnavailableError, start_peers
from heed.data.pairs.pairs import Pairs, id_lists
from heed.data.steps.batch import Batch
from heed.data.steps.stream import StepShard
from heed.kernels.choice import has_fast_bf16_matmul
from heed.launch.compose import compose
from heed.launch.plan import settle
from heed.launch.run import build
from heed.models.rnn_config import RNNConfig
from heed.models.transformer_config import TransformerConfig
from heed.symbols import PAD

SIZES = {
    "d256": ["model=transformer", "model.d_model=256", "model.d_ff=1024", "model.encoder_layers=3",
             "model.decoder_layers=3", "model.dropout=0.1", "model/positions=sinusoidal"],
    "tiny": ["model=transformer_tiny", "model/positions=sinusoidal"],
    "opus": ["model=transformer", "model.d_model=512", "model.d_ff=2048", "model.num_heads=8", "model.encoder_layers=6",
             "model.decoder_layers=6", "model.dropout=0.1", "model/positions=sinusoidal", "model.norm=post",
             "model.activation=silu"],
    "smallest": ["model=transformer", "model.d_model=16", "model.d_ff=16", "model.num_heads=2"],
    "rnn": ["model=rnn", "model.d_embedding=256", "model.d_model=512", "model.dropout=0.2"],
}  # fmt: skip
"""Options of ``train.py``. ``opus`` is the size of OPUS-MT's models, ``smallest`` is for testing the benchmark."""

OPTIMIZER = ["optimizer=adamw", "schedule=inverse_sqrt"]
"""The peers' own."""

STEP_TOKENS = 3700
"""Target tokens of an optimizer step, so that it fits into one micro-batch of 4096 padded tokens."""

Steps = Sequence[Pairs]
"""The pairs of each optimizer step."""
Peer = Callable[[Steps], tuple[None, float]]
"""Takes the steps, and returns the seconds."""


class Training:
    """A training run as ``train.py`` composes it with some options in a folder, without validation."""

    def __init__(self, overrides: Sequence[str], folder: Path) -> None:
        settings = [
            "name=bench", "logger=none", "trainer.accelerator=cpu", "trainer.max_epochs=null", *overrides,
            "trainer.validate_every=1000000", "callbacks.attention_maps=null", "callbacks.attention_heads=null",
            "test=false",
        ]  # fmt: skip
        self.trainer, self.module, self.data = build(settle(compose(settings)), folder)
        self.tokenizer = self.module.tokenizer
        self.model = self.module.model

    def fit(self, callback: Callback) -> None:
        """Train until the callback has measured all rounds."""
        # Last, so that the time of the other callbacks counts as training.
        self.trainer.callbacks.append(callback)
        with suppress(RoundsDoneError):
            self.trainer.fit(self.module, self.data)


class RoundsDoneError(Exception):
    """Ends training without the usual final validation and checkpoint."""


@dataclass(eq=False)
class AlternatingRounds(Callback):  # type: ignore[misc]
    """After every ``steps`` steps of heed, lets each peer take the same steps, while Lightning waits.

    heed's time includes planning, collation, Lightning's loop and callbacks. A peer's time includes its steps and their
    collation; it takes a whole step as one batch.
    """

    peers: Mapping[str, Peer]
    rounds: int
    warmup: int
    """Rounds that are not measured."""
    steps: int
    now: Callable[[], float]
    taken: list[StepShard] = field(default_factory=list)
    """heed's steps of this round."""

    def __post_init__(self) -> None:
        self.all_rates: dict[str, list[float]] = {name: [] for name in ("heed", *self.peers)}
        self.round_start = self.now()

    @property
    def rates(self) -> dict[str, list[float]]:
        """By side, the tokens per second of each measured round."""
        return {name: rates[self.warmup :] for name, rates in self.all_rates.items()}

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.taken.append(batch)
        if len(self.taken) < self.steps:
            return
        tokens = sum(shard.src_tokens + shard.tgt_tokens for shard in self.taken)
        self.all_rates["heed"].append(tokens / (self.now() - self.round_start))
        steps = [_pairs(shard) for shard in self.taken]
        for name, peer in self.peers.items():
            self.all_rates[name].append(tokens / peer(steps)[1])
        if len(self.all_rates["heed"]) == self.warmup + self.rounds:
            raise RoundsDoneError
        self.taken = []
        self.round_start = self.now()


def _pairs(shard: StepShard) -> Pairs:
    """Return the pairs of a step, without BOS and EOS."""
    batches = [batch for _, batch in shard.micro_batches]
    src = [row[:-1] for batch in batches for row in _unpadded(batch.src)]
    tgt = [row[:-1] for batch in batches for row in _unpadded(batch.tgt_out)]
    return Pairs(np.arange(len(src)), id_lists(src), id_lists(tgt))


def _unpadded(ids: Tensor) -> list[list[int]]:
    return [[token for token in row if token != PAD] for row in ids.tolist()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--model", choices=("transformer", "rnn"), default="transformer")
    parser.add_argument("--sizes", help=f"of the transformer: {', '.join(SIZES)} (default: d256,tiny)")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds (default: %(default)s)")
    parser.add_argument(
        "--warmup", type=int, default=10, help="rounds that are not measured, while caches fill (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps of each side in a round")
    parser.add_argument("--step-tokens", type=int, default=STEP_TOKENS, help="target tokens of an optimizer step")
    parser.add_argument(
        "--precision",
        default="auto",
        help="of the peers: fp32, bf16 or fp32,bf16 (default: both if the CPU has bf16 products, else fp32)",
    )
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="options of heed's train.py")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the sections ``train``, ``limit`` and ``skipped`` of bench.json."""
    sizes = ["rnn"] if arguments.model == "rnn" else (arguments.sizes or "d256,tiny").split(",")
    found: list[dict[str, Any]] = []
    limits: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for size in sizes:
        with TemporaryDirectory() as folder:
            training = Training(overrides(size, arguments), Path(folder))
            vocabulary = training.tokenizer.tgt_vocab
            print(f"train {size}: {training.data.corpus.name}, {vocabulary:,} subwords, tokens/s", flush=True)
            peers, missing = start_peers(_makers(arguments, training), now=arguments.now)
            measured: dict[str, Peer] = {**peers}
            if "marian" in arguments.peers and arguments.model == "transformer":
                try:
                    measured["marian fp32"] = _start_marian(arguments, training, Path(folder))
                except UnavailableError as reason:
                    print(f"  marian: skipped, {reason}", flush=True)
                    missing["marian"] = str(reason)
            rounds = AlternatingRounds(measured, arguments.rounds, arguments.warmup, arguments.steps, arguments.now)
            training.fit(rounds)
        memory = {name: round(peer.peak_mib()) for name, peer in peers.items()} | {"heed": round(peak_mib())}
        print(f"  peak memory, MiB: {', '.join(f'{name} {size:,}' for name, size in memory.items())}", flush=True)
        for peer in peers.values():
            peer.close()
        skipped |= missing
        facts = {"size": size, "threads": arguments.threads, "vocabulary": vocabulary}
        found += rows(rounds.rates, unit="tokens/s", **facts)
        limits.append({**facts, "peak_mib": memory, **_limit(training, rounds, arguments.now)})
    return {"train": found, "limit": limits, "skipped": skipped}


def overrides(size: str, arguments: argparse.Namespace) -> list[str]:
    """Return the options of ``train.py`` for a size, on the data of the command line."""
    batching = [f"batching.batch_tokens={arguments.step_tokens}"]
    data = ["data=synthetic"]
    if arguments.data:
        data = ["data=multi30k", f"data.root={arguments.data}", "tokenizer.vocab_size=8000"]
    return [*SIZES[size], *OPTIMIZER, *batching, *data, *arguments.set]


def _makers(arguments: argparse.Namespace, training: Training) -> dict[str, Callable[[], Callable[[Steps], None]]]:
    peers = ["torch", "torch-our-dropout", "hf"] if arguments.model == "transformer" else ["torch"]
    precisions = arguments.precision
    if precisions == "auto":
        precisions = "fp32,bf16" if has_fast_bf16_matmul() else "fp32"
    config: Any = training.model.config
    return {
        f"{name} {precision}": partial(
            training_loop, name, training.tokenizer.tgt_vocab, config, bf16=precision == "bf16"
        )
        for name in peers
        if name.split("-")[0] in arguments.peers
        for precision in precisions.split(",")
    }


def _start_marian(arguments: argparse.Namespace, training: Training, folder: Path) -> MarianTraining:
    if arguments.clock == "cpu":
        raise UnavailableError("its log has wall time: use --clock wall")
    (folder := folder / "marian").mkdir()
    config: Any = training.model.config
    return MarianTraining(
        folder, training.tokenizer, config, step_tokens=arguments.step_tokens, threads=arguments.threads
    )


def training_loop(
    peer: str, vocabulary: int, config: RNNConfig | TransformerConfig, *, bf16: bool
) -> Callable[[Steps], None]:
    """Return a function that takes optimizer steps with a new model of a peer.

    Raises:
        UnavailableError: the peer is not installed.
    """
    model: torch.nn.Module
    if isinstance(config, RNNConfig):
        model = torch_peer.RNN(vocabulary, config)
    elif peer == "hf":
        model = torch_peer.Marian(vocabulary, config)
    else:
        model = torch_peer.Transformer(vocabulary, config, dropout_as_ours=peer == "torch-our-dropout")
    return torch_peer.PlainLoop(model, torch_peer.loss_of(model), bf16=bf16).take


def _limit(training: Training, rounds: AlternatingRounds, now: Callable[[], float]) -> dict[str, Any]:
    """Time the matrix products of heed's last step alone, and print the share of that speed that heed reaches."""
    shard = rounds.taken[-1]
    batches = [batch for _, batch in shard.micro_batches]
    products = record_products(lambda: take_step(training, batches))
    seconds, rate = time_products(products, now=now)
    limit = (shard.src_tokens + shard.tgt_tokens) / seconds
    ours = float(np.median(rounds.rates["heed"]))
    print(
        f"  matrix products alone    {limit:>10,.1f} tokens/s ({rate / 1e9:.0f} GFLOP/s)   heed reaches "
        f"{ours / limit:.0%} of it",
        flush=True,
    )
    return {"heed": round(ours, 1), "matmul_tokens_per_second": round(limit, 1), "gflops": round(rate / 1e9, 1)}


def take_step(training: Training, batches: Sequence[Batch]) -> None:
    """Run the forward and backward passes of one step in the run's precision, without Lightning's loop."""
    training.model.train()
    for batch in batches:
        with training.trainer.precision_plugin.forward_context():
            loss, _ = training.module.summed_loss(batch)
        torch.autograd.backward(loss / batch.tgt_tokens)
    training.module.zero_grad()
