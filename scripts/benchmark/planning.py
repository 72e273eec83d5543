"""``benchmark plan``: time and memory of planning the batches of an epoch."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmark.measure import peak_mib
from heed.data.order.order import EpochOrder
from heed.data.pairs.pairs import IntArray, StoredPairs, TrainingPairs, chunk_size, count_chunk_tokens, unflatten
from heed.data.steps.steps import Planner
from heed.errors import HeedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument(
        "--batch-tokens", type=int, default=25_000, help="target tokens of a step (default: %(default)s)"
    )
    parser.add_argument(
        "--rate", type=float, help="tokens/s of training (default: the rate of d256 or the first rate in bench.json)"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the section ``plan`` of bench.json: seconds and memory for a tenth of the pairs, then for all."""
    rate = arguments.rate or _measured_rate(arguments)
    found = [_measure(pairs, arguments.batch_tokens, rate) for pairs in (arguments.pairs // 10, arguments.pairs)]
    return {"plan": found}


def _measure(pairs: int, batch_tokens: int, rate: float) -> dict[str, Any]:
    src, tgt = lengths(pairs)
    order = epoch_order(src, tgt)
    planner = Planner(batch_tokens=batch_tokens, device_tokens=4096, pool=20_000, seed=1)
    before = peak_mib()
    start = time.perf_counter()
    steps = 0
    for pool in planner.pools(order):
        steps += len(planner.cut(pool, order.read(pool.first, pool.stop)))
    seconds = time.perf_counter() - start
    memory = peak_mib() - before
    share = seconds / (int(src.sum() + tgt.sum()) / rate)
    print(
        f"plan: {pairs:,} pairs in {steps:,} steps: {seconds:.1f} s, {share:.3%} of training at {rate:,.0f} tokens/s; "
        f"peak memory grew by {memory:.1f} MiB",
        flush=True,
    )
    return {
        "pairs": pairs,
        "steps": steps,
        "seconds": round(seconds, 2),
        "tokens_per_second": rate,
        "share": round(share, 6),
        "memory_mib": round(memory, 1),
    }


def epoch_order(src: IntArray, tgt: IntArray) -> EpochOrder:
    """Return the order of an epoch of pairs with these lengths, including EOS."""
    sides = (unflatten(np.zeros(int(side.sum()), np.uint16), side) for side in (src - 1, tgt - 1))
    batch, chunk = pa.record_batch(list(sides), ["src", "tgt"]), chunk_size(len(src))
    stored = StoredPairs([batch], chunk, count_chunk_tokens(batch, chunk), (0, 0, 0), "", Path())
    return EpochOrder(TrainingPairs([stored]), seed=(1, 0))


def lengths(pairs: int) -> tuple[IntArray, IntArray]:
    """Draw source and target lengths: log-normal as in web text, correlated, from 2 to 200 tokens."""
    rng = np.random.default_rng(1)
    src = rng.lognormal(3.0, 0.6, pairs)
    tgt = src * rng.lognormal(0.0, 0.2, pairs)
    return tuple(side.astype(np.int64).clip(2, 200) for side in (src, tgt))  # type: ignore[return-value]


def _measured_rate(arguments: argparse.Namespace) -> float:
    if arguments.out.exists():
        rows = json.loads(arguments.out.read_text(encoding="utf-8")).get("train", [])
        if rows:
            return float(next((row for row in rows if row["size"] == "d256"), rows[0])["ours"])
    raise HeedError(
        f"{arguments.out} has no training rate: run `python scripts/benchmark train` first, or give --rate."
    )
