"""Marian itself as a peer of training: https://marian-nmt.github.io, installed with the package ``pymarian``."""

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmark.peers import UnavailableError
from heed.data.pairs.pairs import Pairs
from heed.data.pairs.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.models.transformer_config import TransformerConfig

UPDATE = re.compile(r"Cost \S+ \* ([\d,]+) @ .* : Time ([\d.]+)s")
"""A line of Marian's log after an update: its target tokens and its seconds."""


class MarianTraining:
    """Trains a new model on the pairs of each call, in fp32, and reads the time from Marian's log.

    The start and the first update are not counted. Marian cuts the pairs into batches itself.

    Args:
        folder: where its files are.
        tokenizer: of the pairs, with a joint vocabulary.
        step_tokens: target tokens of an update.

    Raises:
        UnavailableError: Marian is not installed.
    """

    def __init__(
        self, folder: Path, tokenizer: Tokenizer, config: TransformerConfig, *, step_tokens: int, threads: int
    ) -> None:
        if find_spec("pymarian") is None:  # importing it would load its libraries into heed's process
            raise UnavailableError("pymarian is not installed (pip install -e '.[bench]')")
        self.folder = folder
        self.tokenizer = tokenizer
        tokenizer.save(folder)
        (folder / "tokenizer.model").rename(folder / "tokenizer.spm")  # Marian knows the type by this ending
        norm = {
            "pre": {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
            "post": {"transformer-postprocess": "dan"},
        }
        options = {
            "type": "transformer",
            "train-sets": "src.txt tgt.txt",
            "vocabs": "tokenizer.spm tokenizer.spm",
            "model": "model.npz",
            "dim-emb": config.d_model,
            "transformer-heads": config.num_heads,
            "transformer-dim-ffn": config.d_ff,
            "transformer-ffn-activation": config.activation,
            "transformer-dropout": config.dropout,
            "enc-depth": config.encoder_layers,
            "dec-depth": config.decoder_layers,
            **norm[config.norm],
            "tied-embeddings-all": "true",
            "label-smoothing": 0.1,
            "mini-batch": 10_000,
            "mini-batch-words": step_tokens,
            "max-length": 1000,
            "after": "1e",
            "disp-freq": "1u",
            "cpu-threads": threads,
        }
        self.options = " ".join(f"--{name} {value}" for name, value in options.items()) + " --overwrite --no-reload"

    def __call__(self, steps: Sequence[Pairs]) -> tuple[None, float]:
        """Return None and the seconds of training on these pairs, at the speed of Marian's updates after the first."""
        for name, decode in (("src", self.tokenizer.decode_src), ("tgt", self.tokenizer.decode_tgt)):
            lines = [line for pairs in steps for line in decode(getattr(pairs, name).to_pylist())]
            (self.folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        command = [sys.executable, "-c", "import pymarian, sys; pymarian.Trainer(sys.argv[1]).train()", self.options]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, encoding="utf-8", check=False)
        updates = [(int(n.replace(",", "")), float(seconds)) for n, seconds in UPDATE.findall(done.stderr)]
        if done.returncode or len(updates) < 2:
            raise HeedError(f"Marian made {len(updates)} updates: give at least two --steps.\n{done.stderr[-2000:]}")
        measured = sum(tokens for tokens, _ in updates[1:])
        return None, sum(seconds for _, seconds in updates[1:]) * sum(tokens for tokens, _ in updates) / measured
