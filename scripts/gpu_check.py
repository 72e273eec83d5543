"""Check and measure heed on one NVIDIA GPU: python scripts/gpu_check.py [--only train,decode] [--out gpu.json]

Writes a JSON object with a section for each check, and prints it as a table. A section that fails holds its error, and
the others are still run. Exits with 1 if a section failed, and with 2 on a machine without CUDA.

``--device cpu --tiny`` runs all sections with small models on a CPU, as a test of this script.
"""

import argparse
import copy
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from benchmark import gpu_runs, torch_peer
from benchmark.decoding import build_search
from benchmark.exported_peers import CTranslate2Decoding
from benchmark.measure import timed
from benchmark.peers import UnavailableError
from benchmark.torch_peer import PlainLoop
from torch import Tensor

from heed.data.pairs.pairs import Pairs, unflatten
from heed.data.steps.batch import Batch, collate
from heed.data.steps.steps import Planner, Pool
from heed.errors import HeedError
from heed.launch.compose import compose
from heed.models import build_model
from heed.models.seq2seq import TrainableSeq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.symbols import SPECIAL_PIECES
from heed.training.module import compiled_decode_hidden
from heed.training.trainer import choose_gpu_kernels

LENGTH = 32
"""Tokens of each source and target in random batches: about as many as in WMT sentences."""
MINUTES = 8
"""Time limit of the preset multi30k_en_de."""


@dataclass(frozen=True)
class Options:
    """The options of the command line, and the sizes of what is measured."""

    device: str
    data: Path | None = None
    """Folder of Multi30k."""
    tiny: bool = False
    vocabulary: int = 32_000
    step_tokens: int = 25_000
    """Target tokens of a step."""
    repetitions: int = 20
    sizes: tuple[str, ...] = ("transformer_base", "transformer_big")


tiny_options = partial(Options, tiny=True, vocabulary=100, step_tokens=256, repetitions=2, sizes=("transformer_tiny",))


def synchronize(device: str) -> None:
    """Wait for the GPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(compute: Callable[[], object], options: Options) -> float:
    """Return the mean seconds of a call, after three calls that are not measured."""
    for _ in range(3):
        compute()
    synchronize(options.device)
    start = time.perf_counter()
    for _ in range(options.repetitions):
        compute()
    synchronize(options.device)
    return (time.perf_counter() - start) / options.repetitions


def random_ids(draw: np.random.Generator, lengths: npt.NDArray[np.int64], options: Options) -> Any:
    """Return random tokens in sentences of these lengths, without EOS."""
    return unflatten(draw.integers(len(SPECIAL_PIECES), options.vocabulary, lengths.sum()), lengths)


def random_batch(options: Options, rows: int, *, shortest: int = LENGTH) -> Batch:
    """Return sentences of random tokens, of ``shortest`` to LENGTH tokens, EOS included."""
    draw = np.random.default_rng(1)
    src, tgt = (random_ids(draw, draw.integers(shortest - 1, LENGTH, rows), options) for _ in range(2))
    index = np.arange(rows)
    return collate(index, Pairs(index, src, tgt)).to(options.device)


def planned_batches(options: Options) -> list[Batch]:
    """Return batches as heed plans them, one for each step, of random tokens in sentences about as long as WMT's."""
    pairs, steps = (60, 4) if options.tiny else (20_000, 8)
    draw = np.random.default_rng(2)
    src_lengths = np.clip(draw.lognormal(3.1, 0.55, pairs), 2, 120).astype(np.int64)
    tgt_lengths = np.clip(src_lengths * draw.normal(1.05, 0.2, pairs), 2, 120).astype(np.int64)
    src, tgt = (random_ids(draw, lengths, options) for lengths in (src_lengths, tgt_lengths))
    planner = Planner(batch_tokens=options.step_tokens, device_tokens=10**9, pool=pairs, seed=1)
    pool = Pool(0, pairs, first_step=0, steps=round((tgt_lengths + 1).sum() / options.step_tokens))
    made = Pairs(np.arange(pairs), src, tgt)
    planned = planner.cut(pool, made)[:steps]
    return [collate(rows, made).to(options.device) for step in planned for rows in step]


def architecture(size: str) -> TransformerConfig:
    """Return the architecture of ``model=SIZE``."""
    from hydra.utils import instantiate

    config = instantiate(compose([f"model={size}"]).options["model"])
    assert isinstance(config, TransformerConfig)
    return config


def heed_model(size: str, options: Options) -> TrainableSeq2Seq:
    """Return a model with random weights on the device."""
    torch.manual_seed(1)
    vocabulary = options.vocabulary
    model = build_model(architecture(size), src_vocab=vocabulary, tgt_vocab=vocabulary, joint=True)
    return model.to(options.device)


@cache
def peak(options: Options) -> dict[str, Any]:
    """Measure the FLOP/s of a large product in bf16."""
    size = 256 if options.tiny else 8192
    a, b = (torch.randn(size, size, device=options.device).bfloat16() for _ in range(2))
    seconds = seconds_of(lambda: a @ b, options)
    return {"matrix": size, "tflops": round(2 * size**3 / seconds / 1e12, 3)}


def step_flops(config: TransformerConfig, options: Options, tokens: float) -> float:
    """Return the FLOPs of the matrix products of a step with ``tokens`` source and as many target tokens.

    Two for each weight and token forwards and four backwards; attention itself adds the products of queries, keys and
    values.
    """
    d, ff = config.d_model, config.d_ff
    encoder = config.encoder_layers * (4 * d * d + 2 * d * ff + 2 * LENGTH * d)
    decoder = config.decoder_layers * (8 * d * d + 2 * d * ff + 4 * LENGTH * d)
    return 6.0 * tokens * (encoder + decoder + d * options.vocabulary)


def measure_steps(
    loop: PlainLoop, batches: Sequence[Batch], config: TransformerConfig, options: Options
) -> dict[str, Any]:
    """Return speed, share of the measured peak and memory of training steps on these batches in turn."""
    for batch in batches:  # compiles, and allocates memory for all sizes
        loop.step(batch)
    if options.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    turns = cycle(batches)
    tokens = sum(batch.tgt_tokens for batch in batches) / len(batches)
    seconds = seconds_of(lambda: loop.step(next(turns)), options)
    tflops = step_flops(config, options, tokens) / seconds / 1e12
    found = {"tokens_per_second": round(2 * tokens / seconds), "tflops": round(tflops, 4)}
    found["share_of_peak"] = round(tflops / peak(options)["tflops"], 4)
    if options.device == "cuda":
        found["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        found["reserved_gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
    return found


def heed_loss(model: TrainableSeq2Seq, *, compiled: bool = False) -> Callable[[Batch], Tensor]:
    """Return heed's loss of a batch."""
    decode = compiled_decode_hidden(model) if compiled else model.decode_hidden

    def loss(batch: Batch) -> Tensor:
        mask = batch.src_mask if batch.has_src_padding else None
        hidden = decode(batch.src, mask, batch.tgt_in, src_lengths=batch.src_lengths)
        total, _ = hidden.loss(batch.tgt_out, batch.tgt_positions[0], label_smoothing=0.1)
        return total / batch.tgt_tokens

    return loss


def train(options: Options) -> dict[str, Any]:
    """Measure training steps in bf16: heed's on three kinds of batches, and its peers'."""
    choose_gpu_kernels()
    rows = options.step_tokens // LENGTH
    full = [random_batch(options, rows)]
    planned = planned_batches(options)
    found: dict[str, Any] = {}
    for size in options.sizes:
        heed = partial(_measure_heed, size, options)
        cases = {
            "": partial(heed, full),
            ", padding": partial(heed, [random_batch(options, rows, shortest=LENGTH - 7)]),
            ", planned": partial(heed, planned),
        }
        cases |= {f", {name}": partial(_measure_peer, peer, size, options, full) for name, peer in PEERS.items()}
        found |= {f"{size}{name}": _reported(measure) for name, measure in cases.items()}
    return found


def compiled(options: Options) -> dict[str, Any]:
    """Measure the same steps with torch.compile."""
    if options.tiny:
        return {}
    choose_gpu_kernels()
    kinds = {"": [random_batch(options, options.step_tokens // LENGTH)], ", planned": planned_batches(options)}
    return {
        f"{size}{name}": _reported(partial(_measure_heed, size, options, batches, compiled=True))
        for size in options.sizes
        for name, batches in kinds.items()
    }


def _measure_heed(size: str, options: Options, batches: Sequence[Batch], *, compiled: bool = False) -> dict[str, Any]:
    model = heed_model(size, options).train()
    loop = PlainLoop(model, heed_loss(model, compiled=compiled), bf16=True, device=options.device)
    return measure_steps(loop, batches, architecture(size), options)


PEERS: dict[str, Callable[[int, TransformerConfig], torch.nn.Module]] = {
    "torch.nn.Transformer": partial(torch_peer.Transformer, dropout_as_ours=True),
    "Hugging Face Marian": torch_peer.Marian,
}
"""By name: from the size of the vocabulary and the architecture, a model of (src, src_mask, tgt_in)."""


def _measure_peer(
    make: Callable[[int, TransformerConfig], torch.nn.Module], size: str, options: Options, batches: Sequence[Batch]
) -> dict[str, Any]:
    config = architecture(size)
    model = make(options.vocabulary, config).to(options.device)
    loop = PlainLoop(model, torch_peer.loss_of(model), bf16=True, device=options.device)
    return measure_steps(loop, batches, config, options)


def decode(options: Options) -> dict[str, Any]:
    """Measure greedy and beam search next to CTranslate2, and compare the translations of the CPU with the device's."""
    torch.set_float32_matmul_precision("highest")  # training allows TF32
    model = heed_model(options.sizes[0], options).eval()
    on_cpu = copy.deepcopy(model).cpu()
    rows = 4 if options.tiny else 128
    batch, few = random_batch(options, rows), random_batch(options, 4)
    found: dict[str, Any] = {}
    for name, beam in {"greedy": 1, "beam 5": 5}.items():
        search = build_search(beam, longest=LENGTH)  # random weights rarely choose EOS
        here = [best[0].tokens for best in search(model, few.src, few.src_mask)]
        there = [best[0].tokens for best in search(on_cpu, few.src.cpu(), few.src_mask.cpu())]
        search(model, batch.src, batch.src_mask)
        synchronize(options.device)
        start = time.perf_counter()
        hypotheses = search(model, batch.src, batch.src_mask)
        synchronize(options.device)
        seconds = time.perf_counter() - start
        ours = [best[0].tokens for best in hypotheses]
        found[name] = {"tokens_per_second": round(sum(map(len, ours)) / seconds), "equal_to_cpu": here == there}
        found[f"{name}, CTranslate2"] = _reported(partial(_decode_by_peer, on_cpu, batch, beam, ours, options))
    return found


def _decode_by_peer(
    model: torch.nn.Module, batch: Batch, beam: int, ours: list[list[int]], options: Options
) -> dict[str, Any]:
    """Measure CTranslate2 in fp32 on the same device, and the share of translations that are equal to heed's."""
    assert isinstance(model, Transformer)
    batches = [(batch.src.cpu(), batch.src_mask.cpu())]
    with TemporaryDirectory() as folder:
        peer = CTranslate2Decoding(
            model, Path(folder) / "model", kind="float32", threads=1, longest=LENGTH, device=options.device
        )
        peer.translate(batches, beam=beam)
        theirs, seconds = timed(partial(peer.translate, beam=beam), batches, time.perf_counter)
    equal = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)
    return {"tokens_per_second": round(sum(map(len, theirs)) / seconds), "equal": round(equal, 4)}


def losses(options: Options) -> dict[str, Any]:
    """Compare the loss curve of a small model without dropout on the device, in several precisions, with the CPU's."""
    curves = {}
    for name, device, bf16 in (
        ("cpu fp32", "cpu", False),
        ("fp32", options.device, False),
        ("bf16", options.device, True),
    ):
        small = tiny_options(device)
        model, batch = heed_model("transformer_tiny", small).eval(), random_batch(small, 8)
        loop = PlainLoop(model, heed_loss(model), bf16=bf16, device=device)
        curves[name] = torch.tensor([loop.step(batch).item() for _ in range(20)])
    reference = curves["cpu fp32"]
    return {name: round(float((curve / reference - 1).abs().max()), 6) for name, curve in curves.items()}


def runs(options: Options) -> dict[str, Any]:
    """Train runs of four steps with options that change the computation, and multi30k_en_de if its corpus is there."""
    trainer = f"trainer={'cpu' if options.device == 'cpu' else 'gpu'}"
    cases = {name: [*gpu_runs.TINY, *words] for name, words in gpu_runs.CASES.items()}
    if options.data is not None:
        cases["multi30k"] = ["experiment=multi30k_en_de", f"data.root={options.data}", "batching.device_tokens=auto"]
        cases["multi30k"] += ["trainer.max_steps=4", "schedule.warmup_steps=1"] if options.tiny else []
        cases["multi30k"] += [f"trainer.max_time=00:00:{MINUTES:02d}:00"]
    return {name: _reported(partial(gpu_runs.measure_run, [*words, trainer])) for name, words in cases.items()}


def agreement(options: Options) -> dict[str, Any]:
    """Train both families, and compare translations, scores, maps and interventions with the CPU's."""
    trainer = f"trainer={'cpu' if options.device == 'cpu' else 'gpu'}"
    steps = [] if options.tiny else gpu_runs.LEARNS
    return {
        name: _reported(partial(gpu_runs.compare_devices, [*gpu_runs.TINY, *steps, *words, trainer], options.device))
        for name, words in gpu_runs.FAMILIES.items()
    }


def repeat(options: Options) -> dict[str, Any]:
    """Train the same runs again, and from a checkpoint, in bf16."""
    words = [*gpu_runs.TINY, f"trainer={'cpu' if options.device == 'cpu' else 'gpu'}", "trainer.precision=bf16-mixed"]
    families = gpu_runs.FAMILIES.items()
    return {name: _reported(partial(gpu_runs.repeat, [*words, *family])) for name, family in families}


SECTIONS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "peak": peak,
    "train": train,
    "compiled": compiled,
    "decode": decode,
    "losses": losses,
    "agreement": agreement,
    "repeat": repeat,
    "runs": runs,
}


def _reported(compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a call, or its error, so that other calls can continue."""
    try:
        return compute()
    except UnavailableError as reason:
        return {"skipped": str(reason)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def table(report: dict[str, Any]) -> str:
    """Return the figures of all sections, one line for each case."""
    lines = []
    for section in SECTIONS:
        found = report.get(section, {})
        cases = {name: case for name, case in found.items() if isinstance(case, dict)}
        own = {name: value for name, value in found.items() if name not in cases}
        for case, figures in ({"": own} | cases).items():
            shown = "  ".join(f"{name}={json.dumps(value)}" for name, value in figures.items())
            lines.append(f"{section:<10} {case:<45} {shown}".rstrip())
    return "\n".join(lines)


def has_failed(found: object) -> bool:
    """Return whether a result holds an error, at any depth."""
    return isinstance(found, dict) and ("error" in found or any(map(has_failed, found.values())))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line.

    Raises:
        HeedError: if a section does not exist, or the device is missing.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas (default: all)")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), help="file to write (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder of Multi30k, to measure its preset")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models")
    parsed = parser.parse_args(arguments)
    parsed.only = parsed.only.split(",")
    if unknown := [name for name in parsed.only if name not in SECTIONS]:
        raise HeedError(f"There is no section {unknown[0]}: choose from {', '.join(SECTIONS)}.")
    if parsed.device == "cuda" and not torch.cuda.is_available():
        raise HeedError("This machine has no CUDA GPU: use another machine, or add --device cpu --tiny.")
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Run the sections and return the exit status."""
    try:
        parsed = parse(arguments)
    except HeedError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    options = (tiny_options if parsed.tiny else Options)(parsed.device, parsed.data)
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    report: dict[str, Any] = {
        "what": "heed on one device: speed, memory, and agreement with the CPU.",
        "command": " ".join(["python", "scripts/gpu_check.py", *arguments]),
        "machine": f"{machine}, torch {torch.__version__}",
        "date": f"{date.today():%Y-%m-%d}",
    }
    for name in parsed.only:
        start = time.perf_counter()
        found = _reported(lambda name=name: SECTIONS[name](options))  # type: ignore[misc]
        report[name] = {**found, "seconds": round(time.perf_counter() - start, 1)}
        print(f"{name}: {report[name]['seconds']} s", flush=True)
        parsed.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(table(report))
    return int(has_failed(report))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
