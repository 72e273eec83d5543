"""`bench.py train`: heed's own training, run by Lightning, and peers that take the same steps in turn."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import numpy as np
import torch
from hydra import compose, initialize_config_dir
from lightning.pytorch.callbacks import Callback

from benchmark.apart import Apart
from benchmark.matmul import matmul_seconds, products_of
from benchmark.peers import UnableError, installed, those_able
from benchmark.rounds import rows
from heed.data.batch import Batch
from heed.data.datamodule import StepShard, TranslationData
from heed.data.encoded import EncodedSplit, Ragged
from heed.kernels.cpu import has_bf16_matmul
from heed.launch.configuration import build
from heed.models.rnn import RNNConfig
from heed.models.transformer import TransformerConfig
from heed.runs.selection import Selection
from heed.training.module import TranslationModule

ROOT = Path(__file__).parents[2]

SIZES = {
    "d256": ["model=transformer", "model.d_ff=1024"],
    "tiny": ["model=transformer_tiny"],
    "smallest": ["model=transformer", "model.d_model=16", "model.d_ff=16", "model.num_heads=2"],
    "rnn": ["model=rnn"],
}
"""What ``train.py`` is told. ``smallest`` is for trying the benchmark itself."""

STEP_TOKENS = 3700
"""Target tokens of an optimizer step: what fits into sentences × longest side ≤ 4096."""


Steps = Sequence[EncodedSplit]
"""The pairs of each optimizer step."""


class Training:
    """A run as ``train.py`` composes it, without validations, kept in a temporary folder."""

    def __init__(self, overrides: Sequence[str], folder: Path) -> None:
        sys.path.append(str(ROOT))
        import train
        from heed.data.tokenizer import Tokenizer

        settings = ["name=bench", "logger=none", "trainer.accelerator=cpu", "trainer.max_epochs=null", *overrides]
        settings += ["trainer.validate_every=1000000", "callbacks.maps=0", "callbacks.aer_sentences=0"]
        with initialize_config_dir(str(train.CONF), version_base="1.3"):
            cfg = compose("train", settings)
        parts = build(cfg)
        self.trainer: L.Trainer = parts["trainer"](
            folder=folder, callbacks=parts["callbacks"](folder=folder, selection=Selection()), loggers=[]
        )
        corpus = parts["data"].load()
        learn = parts["tokenizer"]
        self.tokenizer: Tokenizer = learn.train(corpus.train, cfg.cache_dir, tags=corpus.tags)
        self.data = TranslationData(
            corpus,
            self.tokenizer,
            parts["batching"],
            sampling=learn.sampling,
            with_tests=False,
            cache_dir=cfg.cache_dir,
        )
        torch.manual_seed(cfg.seed)
        self.config = parts["model"]
        self.model = self.config.build(
            src_vocab=self.tokenizer.src_vocab, tgt_vocab=self.tokenizer.tgt_vocab, joint=self.tokenizer.joint
        )
        self.module = TranslationModule(
            self.model,
            self.tokenizer,
            optimizer=parts["optimizer"],
            schedule=parts["schedule"],
            search=parts["search"],
            label_smoothing=cfg.label_smoothing,
            r_drop=cfg.r_drop,
            embedding_lr_scale=cfg.embedding_lr_scale,
            clip_norm=cfg.clip_norm,
            max_skipped_steps=cfg.max_skipped_steps,
            seed=cfg.seed,
        )

    def fit(self, callback: Callback) -> None:
        """Train until the callback has seen enough."""
        # The last callback, so that the others' work counts as training.
        self.trainer.callbacks.append(callback)
        with suppress(SeenEnoughError):
            self.trainer.fit(self.module, self.data)


class SeenEnoughError(Exception):
    """Ends a training, which would else end with a validation and a checkpoint."""


class Turns(Callback):  # type: ignore[misc]
    """While Lightning waits, peers take the steps that heed has taken, each in a process of its own.

    heed's time is all that passes from step to step: planning, collation, loop and callbacks too. A peer is timed over
    its steps and their collation, a whole step as one batch.
    """

    def __init__(
        self, peers: Mapping[str, Apart[Steps, None]], *, rounds: int, warmup: int, steps: int, now: Callable[[], float]
    ) -> None:
        self.peers = peers
        self.rounds = rounds
        self.warmup = warmup
        self.now = now
        self.steps = steps
        self.rates: dict[str, list[float]] = {name: [] for name in ("heed", *peers)}
        self.last: StepShard | None = None
        """A step as heed takes it."""
        self._taken: list[StepShard] = []
        self._clock = self.now()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._taken.append(batch)
        if len(self._taken) < self.steps:
            return
        tokens = sum(share.src_tokens + share.tgt_tokens for share in self._taken)
        self.rates["heed"].append(tokens / (self.now() - self._clock))
        assert isinstance(pl_module, TranslationModule)
        train = pl_module.data.encode_train(batch.epoch)
        steps = [_pairs_of(share, train) for share in self._taken]
        for name, peer in self.peers.items():
            _, seconds = peer(steps)
            self.rates[name].append(tokens / seconds)
        self.last = batch
        self._taken = []
        if len(self.rates["heed"]) == self.warmup + self.rounds:
            self.rates = {name: rates[self.warmup :] for name, rates in self.rates.items()}
            raise SeenEnoughError
        self._clock = self.now()


def _pairs_of(share: StepShard, train: EncodedSplit) -> EncodedSplit:
    index = np.concatenate([batch.index.numpy() for _, batch in share.micro_batches])
    src, tgt = (Ragged.of([side[int(i)].tolist() for i in index]) for side in (train.src, train.tgt))
    return EncodedSplit(src, tgt)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=("transformer", "rnn"), default="transformer")
    parser.add_argument("--sizes", help=f"of transformers: {', '.join(SIZES)} (default: d256,tiny)")
    parser.add_argument("--rounds", type=int, default=7, help="that count")
    parser.add_argument(
        "--warmup", type=int, default=10, help="rounds before them: new shapes cost the first hundred steps memory"
    )
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps of each side in a round")
    parser.add_argument("--step-tokens", type=int, default=STEP_TOKENS, help="target tokens of an optimizer step")
    parser.add_argument(
        "--precision",
        default="auto",
        help="peers': fp32, bf16, or both with a comma (default: both where the CPU has bf16 products, else fp32)",
    )
    parser.add_argument("--set", nargs="*", default=[], metavar="KNOB=VALUE", help="of train.py, for heed's side alone")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The section ``train`` of bench.json, and of ``skipped``."""
    sizes = ["rnn"] if arguments.model == "rnn" else (arguments.sizes or "d256,tiny").split(",")
    found: list[dict[str, Any]] = []
    machine: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for size in sizes:
        with TemporaryDirectory() as folder:
            training = Training(overrides(size, arguments), Path(folder))
            vocabulary = training.tokenizer.tgt_vocab
            print(f"train {size}: {training.data.corpus.name}, {vocabulary:,} subwords, tokens/s", flush=True)
            peers, missing = those_able(_makers(arguments, training))
            turns = Turns(
                peers, rounds=arguments.rounds, warmup=arguments.warmup, steps=arguments.steps, now=arguments.now
            )
            training.fit(turns)
        for peer in peers.values():
            peer.close()
        skipped |= missing
        facts = {"size": size, "threads": arguments.threads, "vocabulary": vocabulary}
        found += rows(turns.rates, unit="tokens/s", **facts)
        machine.append({**facts, **_limit(training, turns, arguments.now)})
    return {"train": found, "limit": machine, "skipped": skipped}


def overrides(size: str, arguments: argparse.Namespace) -> list[str]:
    """For ``train.py``: this size, on the data of the command line."""
    batching = [f"batching.batch_tokens={arguments.step_tokens}"]
    data = ["data=synthetic"]
    if arguments.data:
        data = ["data=multi30k", f"data.root={arguments.data}", "tokenizer.vocab_size=8000"]
    return [*SIZES[size], *batching, *data, *arguments.set]


def _makers(arguments: argparse.Namespace, training: Training) -> dict[str, Callable[[], Apart[Steps, None]]]:
    peers = ["torch", "torch-our-dropout", "hf", "joey"] if arguments.model == "transformer" else ["torch", "joey"]
    precisions = (
        ("fp32,bf16" if has_bf16_matmul() else "fp32") if arguments.precision == "auto" else arguments.precision
    )

    def maker(name: str, precision: str) -> Callable[[], Apart[Steps, None]]:
        make = partial(loop_of, name, training.tokenizer.tgt_vocab, training.config, bf16=precision == "bf16")
        return lambda: Apart(make, now=arguments.now)

    wanted = [name for name in peers if name.split("-")[0] in arguments.peers]
    return {f"{name} {precision}": maker(name, precision) for name in wanted for precision in precisions.split(",")}


def loop_of(
    peer: str, vocabulary: int, config: RNNConfig | TransformerConfig, *, bf16: bool
) -> Callable[[Steps], None]:
    """The plain loop with a peer's model, fresh.

    Raises:
        UnableError: It is not installed, or takes no single steps.
    """
    from benchmark import hf_peer, torch_peer

    model: torch.nn.Module
    if peer == "joey":
        installed("joeynmt")
        raise UnableError("its trainer takes no single steps: time its own loop instead")
    if isinstance(config, RNNConfig):
        model = torch_peer.RNN(vocabulary, config)
    elif peer == "hf":
        model = hf_peer.MarianTraining(vocabulary, config)
    else:
        model = torch_peer.Transformer(vocabulary, config, dropout_as_ours=peer == "torch-our-dropout")
    return torch_peer.PlainLoop(model, bf16=bf16).take


def _limit(training: Training, turns: Turns, now: Callable[[], float]) -> dict[str, Any]:
    """What the machine's matrix products alone would allow, and which share of it heed reaches."""
    share = turns.last
    assert share is not None
    batches = [batch for _, batch in share.micro_batches]
    products = products_of(lambda: torch_step(training, batches))
    seconds, rate = matmul_seconds(products, now=now)
    limit = (share.src_tokens + share.tgt_tokens) / seconds
    ours = float(np.median(turns.rates["heed"]))
    print(
        f"  matrix products alone    {limit:>10,.1f} tokens/s ({rate / 1e9:.0f} GFLOP/s)   heed reaches "
        f"{ours / limit:.0%} of it",
        flush=True,
    )
    return {"heed": round(ours, 1), "matmul_tokens_per_second": round(limit, 1), "gflops": round(rate / 1e9, 1)}


def torch_step(training: Training, batches: Sequence[Batch]) -> None:
    """Forward and backward passes of one step, in the run's precision, without Lightning's loop."""
    training.model.train()
    for batch in batches:
        with training.trainer.precision_plugin.forward_context():
            loss, _ = training.module.summed_loss(batch)
        torch.autograd.backward(loss / batch.tgt_tokens)
    training.module.zero_grad()
