"""Check and measure heed on one NVIDIA GPU: python scripts/gpu_check.py [--only train,decode] [--out gpu.json]

Writes a JSON object with a section for each check. A section that fails holds its error, and the others are still run.
Exits with 1 if a section failed, and with 2 on a machine without CUDA.

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
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from benchmark.hf_peer import MarianTraining
from benchmark.peers import UnavailableError
from benchmark.torch_peer import Transformer as TorchTransformer
from torch import Tensor

from heed.data.batch import Batch, collate
from heed.data.ragged import Ragged
from heed.decoding import BeamSearch, GreedySearch
from heed.errors import HeedError
from heed.launch.compose import compose
from heed.launch.run import train_one_run
from heed.models import build_model
from heed.models.seq2seq import TrainableSeq2Seq
from heed.models.transformer_config import TransformerConfig
from heed.symbols import SPECIAL_PIECES
from heed.training.compilation import compiled_decode_hidden
from heed.training.loss import cross_entropy

LENGTH = 32
"""Tokens of each source and each target in random batches: about that of WMT sentences, padded to a multiple of 8."""


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    device: str
    tiny: bool
    data: Path | None
    """Folder of Multi30k."""

    @property
    def vocabulary(self) -> int:
        return 100 if self.tiny else 32_000

    @property
    def step_tokens(self) -> int:
        """Target tokens of a step."""
        return 256 if self.tiny else 25_000

    @property
    def repetitions(self) -> int:
        return 2 if self.tiny else 20

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("transformer_tiny",) if self.tiny else ("transformer_base", "transformer_big")


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


def random_batch(options: Options, rows: int, *, shortest: int = LENGTH) -> Batch:
    """Return sentences of random tokens, of ``shortest`` to LENGTH tokens, EOS included."""
    draw = np.random.default_rng(1)
    src, tgt = (
        Ragged.of(
            [
                draw.integers(len(SPECIAL_PIECES), options.vocabulary, length - 1)
                for length in draw.integers(shortest, LENGTH + 1, rows)
            ]
        )
        for _ in range(2)
    )
    return collate(np.arange(rows), src, tgt, multiple=8).to(options.device)


def architecture(size: str) -> TransformerConfig:
    """Return the architecture of ``model=SIZE``."""
    from hydra.utils import instantiate

    config = instantiate(compose([f"model={size}"], folder=Path("unused")).model)
    assert isinstance(config, TransformerConfig)
    return config


def heed_model(size: str, options: Options) -> TrainableSeq2Seq:
    """Return a model with random weights on the device."""
    torch.manual_seed(1)
    vocabulary = options.vocabulary
    model = build_model(architecture(size), src_vocab=vocabulary, tgt_vocab=vocabulary, joint=True)
    return model.to(options.device)


def peak(options: Options) -> dict[str, Any]:
    """Measure the FLOP/s of a large product in bf16."""
    size = 256 if options.tiny else 8192
    a, b = (torch.randn(size, size, device=options.device).bfloat16() for _ in range(2))
    seconds = seconds_of(lambda: a @ b, options)
    return {"matrix": size, "tflops": round(2 * size**3 / seconds / 1e12, 3)}


def step_flops(config: TransformerConfig, options: Options, tokens: int) -> float:
    """Return the FLOPs of the matrix products of a step with ``tokens`` source and as many target tokens.

    Two for each weight and token forwards and four backwards; attention itself adds the products of queries, keys and
    values.
    """
    d, ff = config.d_model, config.d_ff
    encoder = config.encoder_layers * (4 * d * d + 2 * d * ff + 2 * LENGTH * d)
    decoder = config.decoder_layers * (8 * d * d + 2 * d * ff + 4 * LENGTH * d)
    return 6.0 * tokens * (encoder + decoder + d * options.vocabulary)


def training_step(
    model: torch.nn.Module, loss_of: Callable[[], Tensor], options: Options, dtype: torch.dtype
) -> Callable[[], Tensor]:
    """Return a function that takes an optimizer step and returns its loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(options.device, dtype=dtype, enabled=dtype != torch.float32):
            loss = loss_of()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def measure_step(step: Callable[[], Tensor], flops: float, tokens: int, options: Options) -> dict[str, Any]:
    """Return speed, share of the measured peak and memory of a training step."""
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = seconds_of(step, options)
    tflops = flops / seconds / 1e12
    found = {"tokens_per_second": round(2 * tokens / seconds), "tflops": round(tflops, 4)}
    found["share_of_peak"] = round(tflops / peak(options)["tflops"], 4)
    if options.device == "cuda":
        found["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return found


def train(options: Options) -> dict[str, Any]:
    """Measure training steps in bf16: heed's with torch.compile and with padding, and those of its peers."""
    found: dict[str, Any] = {}
    rows = options.step_tokens // LENGTH
    full, padded = random_batch(options, rows), random_batch(options, rows, shortest=LENGTH - 7)
    for size in options.sizes:
        for name, measure in _training_cases(size, full, padded, options).items():
            found[f"{size}{name}"] = _reported(measure)
    return found


def _training_cases(size: str, full: Batch, padded: Batch, options: Options) -> dict[str, Callable[[], dict[str, Any]]]:
    heed = partial(_measure_heed, size, options=options)
    cases = {"": partial(heed, full), ", padding": partial(heed, padded)}
    if not options.tiny:
        cases[", compile"] = partial(heed, full, compiled=True)
        cases[", compile, padding"] = partial(heed, padded, compiled=True)
    return {**cases, **{f", {peer}": partial(_measure_peer, peer, size, full, options) for peer in PEERS}}


def _measure_heed(size: str, batch: Batch, options: Options, *, compiled: bool = False) -> dict[str, Any]:
    model = heed_model(size, options).train()
    decode = compiled_decode_hidden(model) if compiled else model.decode_hidden
    (positions,) = batch.tgt_positions
    tokens = batch.tgt_tokens

    def loss_of() -> Tensor:
        hidden = decode(batch.src, batch.src_mask, batch.tgt_in, src_lengths=batch.src_lengths)
        return cross_entropy(hidden, batch.tgt_out, positions, label_smoothing=0.1)[0] / tokens

    step = training_step(model, loss_of, options, torch.bfloat16)
    return measure_step(step, step_flops(architecture(size), options, tokens), tokens, options)


PEERS: dict[str, Callable[[int, TransformerConfig], torch.nn.Module]] = {
    "torch.nn.Transformer": partial(TorchTransformer, dropout_as_ours=True),
    "Hugging Face Marian": MarianTraining,
}
"""By name: from the size of the vocabulary and the architecture, a model of (src, src_mask, tgt_in)."""


def _measure_peer(peer: str, size: str, batch: Batch, options: Options) -> dict[str, Any]:
    config, tokens = architecture(size), batch.tgt_tokens
    try:
        made = PEERS[peer](options.vocabulary, config)
    except UnavailableError as error:
        return {"skipped": str(error)}
    model = made.to(options.device).train()

    def loss_of() -> Tensor:
        with torch.device(options.device):  # for the masks that torch.nn.Transformer creates
            logits = model(batch.src, batch.src_mask, batch.tgt_in)
        return torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), batch.tgt_out.flatten().long(), label_smoothing=0.1
        )

    step = training_step(model, loss_of, options, torch.bfloat16)
    return measure_step(step, step_flops(config, options, tokens), tokens, options)


def decode(options: Options) -> dict[str, Any]:
    """Measure greedy and beam search, and compare the translations of the CPU with those of the device."""
    model = heed_model(options.sizes[0], options).eval()
    on_cpu = copy.deepcopy(model).cpu()
    limits: dict[str, Any] = {"max_length_factor": 1.0, "max_length_extra": 0}
    searches = {
        "greedy": GreedySearch(**limits),
        "beam 5": BeamSearch(beam=5, length_penalty=0.6, n_best=1, **limits),
    }
    rows = 4 if options.tiny else 128
    batch, few = random_batch(options, rows), random_batch(options, 4)
    found: dict[str, Any] = {}
    for name, search in searches.items():
        here = [best[0].tokens for best in search(model, few.src, few.src_mask)]
        there = [best[0].tokens for best in search(on_cpu, few.src.cpu(), few.src_mask.cpu())]
        start = time.perf_counter()
        hypotheses = search(model, batch.src, batch.src_mask)
        synchronize(options.device)
        seconds = time.perf_counter() - start
        tokens = sum(len(best[0].tokens) for best in hypotheses)
        found[name] = {"tokens_per_second": round(tokens / seconds), "equal_to_cpu": here == there}
    return found


def losses(options: Options) -> dict[str, Any]:
    """Compare the loss curve of a small model without dropout on the device, in several precisions, with the CPU's."""
    curves: dict[str, list[float]] = {}
    cpu = Options("cpu", tiny=True, data=None)
    here = Options(options.device, tiny=True, data=None)
    cases = {"cpu fp32": (cpu, torch.float32), "fp32": (here, torch.float32), "bf16": (here, torch.bfloat16)}
    for name, (case, dtype) in cases.items():
        model, batch = heed_model("transformer_tiny", case).eval(), random_batch(case, 8)

        def loss_of(model: TrainableSeq2Seq = model, batch: Batch = batch) -> Tensor:
            hidden = model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in, src_lengths=batch.src_lengths)
            return (
                cross_entropy(hidden, batch.tgt_out, batch.tgt_positions[0], label_smoothing=0.1)[0] / batch.tgt_tokens
            )

        step = training_step(model, loss_of, case, dtype)
        curves[name] = [step().item() for _ in range(20)]
    reference = torch.tensor(curves["cpu fp32"])
    return {name: round(float((torch.tensor(curve) / reference - 1).abs().max()), 6) for name, curve in curves.items()}


def runs(options: Options) -> dict[str, Any]:
    """Train runs through the trainer: device_tokens=auto, fp16, and the Multi30k recipe if its data is there."""
    trainer = "trainer=cpu" if options.device == "cpu" else "trainer=gpu"
    tiny = ["data=synthetic", "data.train=200", "data.valid=8", "data.test=8", "data.long=8", "model=transformer_tiny",
            "trainer.max_steps=4", "trainer.validate_every=4", "batching.batch_tokens=400"]  # fmt: skip
    cases = {
        "device_tokens=auto": [*tiny, "batching.device_tokens=auto"],
        "fp16": [*tiny, "trainer.precision=16-mixed"],
        "bf16": [*tiny, "trainer.precision=bf16-mixed"],
    }
    if options.data is not None:
        recipe = ["experiment=multi30k_en_de", f"data.root={options.data}", "trainer.max_steps=300", "weights=last"]
        cases["multi30k"] = [*recipe, "trainer.validate_every=300", "test=false"]
    return {name: _reported(lambda words=words: _train_run([*words, trainer])) for name, words in cases.items()}  # type: ignore[misc]


def _train_run(words: Sequence[str]) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        always = ["logger=none", "callbacks.attention_maps=null", f"cache_dir={folder}/cache"]
        results = train_one_run(compose([*words, *always], folder=Path(folder)), Path(folder))
    assert results is not None
    return {name: results[name] for name in ("steps", "tokens_per_second", "skipped_steps", "valid")}


SECTIONS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "peak": peak,
    "train": train,
    "decode": decode,
    "losses": losses,
    "runs": runs,
}


def _reported(compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a call, or its error, so that the others go on."""
    try:
        return compute()
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


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
    parser.add_argument("--data", type=Path, help="folder of Multi30k, to measure its recipe")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models")
    parsed = parser.parse_args(arguments)
    parsed.only = parsed.only.split(",")
    if unknown := [name for name in parsed.only if name not in SECTIONS]:
        raise HeedError(f"There is no section {unknown[0]}: choose from {', '.join(SECTIONS)}.")
    if parsed.device == "cuda" and not torch.cuda.is_available():
        raise HeedError("This machine has no CUDA GPU: run this script on one that has, or add --device cpu --tiny.")
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Run the sections and return the exit status."""
    try:
        parsed = parse(arguments)
    except HeedError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    options = Options(parsed.device, parsed.tiny, parsed.data)
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
        print(f"{name}: {json.dumps(report[name])}", flush=True)
        parsed.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(has_failed(report))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
