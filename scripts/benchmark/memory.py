"""``benchmark memory``: peak memory of a training step by the size of a micro-batch."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmark.measure import peak_mib
from benchmark.training import SIZES, STEP_TOKENS, Training, overrides, take_step
from heed.data.steps.batch import Batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--size", choices=SIZES, default="d256")
    parser.add_argument("--device-tokens", default="1024,2048,4096,8192,16384")
    parser.add_argument("--length", type=int, default=16, help="tokens of every source and target")
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="options of train.py")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the section ``memory`` of bench.json."""
    arguments.step_tokens = STEP_TOKENS
    found = []
    with TemporaryDirectory() as folder:
        training = Training(overrides(arguments.size, arguments), Path(folder))
        before = peak_mib()
        print(f"memory {arguments.size}: {before:,.0f} MiB before the first step", flush=True)
        # In ascending order: the peak of a process never decreases.
        for tokens in sorted(map(int, arguments.device_tokens.split(","))):
            take_step(training, [_batch(tokens, arguments.length, training.tokenizer.tgt_vocab)])
            found.append({"size": arguments.size, "device_tokens": tokens, "step_mib": round(peak_mib() - before, 1)})
            print(f"  device_tokens {tokens:>6,}: {found[-1]['step_mib']:>8,.1f} MiB", flush=True)
    return {"memory": found}


def _batch(device_tokens: int, length: int, vocabulary: int) -> Batch:
    """A batch of random tokens without padding."""
    rows = device_tokens // (2 * length)
    src, tgt = torch.randint(4, vocabulary, (2, rows, length))
    return Batch.without_padding(src, tgt, tgt)
