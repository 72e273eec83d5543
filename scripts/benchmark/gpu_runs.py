"""Runs on a GPU: options that change what it computes, agreement with the CPU, and repetition."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from lightning.pytorch.callbacks import Callback, LambdaCallback
from safetensors.torch import load_file

import heed
from heed import Translator, launch
from heed.data.text.synthetic_corpus import read_split
from heed.interventions import ablate
from heed.launch.compose import compose

ALWAYS = ("logger=none", "callbacks.attention_maps.sentences=0")
TINY = (
    "data=synthetic", "data.train=200", "data.valid=8", "data.test=8", "data.long=8", "model=transformer_tiny",
    "batching.batch_tokens=400", "schedule.warmup_steps=1", "trainer.max_steps=4", "trainer.validate_every=4",
)  # fmt: skip
"""Options of a run of four steps."""
CASES: dict[str, Sequence[str]] = {
    "fp16": ["trainer.precision=16-mixed"],
    "bf16": ["trainer.precision=bf16-mixed"],
    "fp32": ["trainer.precision=32"],
    "device_tokens=auto": ["batching.device_tokens=auto"],
    "four micro-batches": ["batching.device_tokens=200"],
    "Muon, rotary, EMA": ["optimizer=muon", "model/positions=rotary", "callbacks.ema.decay=0.9", "weights=ema"],
    "R-Drop": ["module.r_drop=5"],
    "half teacher forcing": ["module.teacher_forcing=0.5"],
    "additive scores": ["model.cross_attention.score=additive", "model.self_attention.score=additive"],
    "relative positions": ["model/positions=relative"],
    "attention maps": ["callbacks.attention_maps.sentences=2"],
    "RNN": ["model=rnn", "model.d_model=64"],
    "RNN, half teacher forcing, R-Drop": [
        "model=rnn", "model.d_model=64", "module.teacher_forcing=0.5", "module.r_drop=5"
    ],
}  # fmt: skip
"""What heed computes differently, by name: further options."""
FAMILIES: dict[str, Sequence[str]] = {"transformer": (), "rnn": ("model=rnn", "model.d_model=128")}
LEARNS = (
    "data.train=24000", "data.valid=100", "data.test=100", "batching.batch_tokens=2500", "schedule.warmup_steps=100",
    "trainer.max_steps=300", "trainer.validate_every=300",
)  # fmt: skip
"""Further options of a training whose translations are compared."""


def train(words: Sequence[str], folder: Path, *callbacks: Callback, cache: Path | None = None) -> dict[str, Any]:
    """Train a run in the folder and return its results."""
    folder.mkdir(exist_ok=True)
    options = [*ALWAYS, *words, f"cache_dir={cache or folder / 'cache'}"]
    run = launch.train(compose(options, folder=folder), callbacks=callbacks)
    assert run is not None
    return run.results


def measure_run(words: Sequence[str]) -> dict[str, Any]:
    """Train a run and return its speed, scores and the size of its micro-batches."""
    used: list[int] = []
    recorder = LambdaCallback(on_train_start=lambda trainer, _: used.append(trainer.datamodule.planner.device_tokens))
    with TemporaryDirectory() as folder:
        results = train(words, Path(folder), recorder)
    names = ("steps", "train_seconds", "tokens_per_second", "data_wait", "padding", "skipped_steps")
    scores = {f"{split}_bleu": results[split]["bleu"] for split in ("valid", "test")}
    return {name: results[name] for name in names} | {"device_tokens": used[0]} | scores


def compare_devices(words: Sequence[str], device: str) -> dict[str, Any]:
    """Train a model on the device, and compare what it computes there and on the CPU in fp32."""
    with TemporaryDirectory() as folder:
        found: dict[str, Any] = {"test_bleu": train(words, Path(folder))["test"]["bleu"]}
        here, there = (heed.load(folder, device=name) for name in (device, "cpu"))
    text = read_split("test", 40)
    sources, references = text.src, text.tgt
    found |= {name: _equal(translate(here), translate(there)) for name, translate in _searches(sources).items()}
    scores = [np.array(model.score(sources, references)) for model in (here, there)]
    found["score_difference"] = _difference(*scores)
    attended = [model.attend(sources[:8], references[:8]) for model in (here, there)]
    pairs = [(a.cross, b.cross) for a, b in zip(*attended, strict=True)]
    found["map_difference"] = max(_difference(a, b) for a, b in pairs if a is not None and b is not None)
    found["alignments"] = _equal(*(model.align(sources, references) for model in (here, there)))
    ablations = [ablate(model, sources[:10], references[:10], beam=1)[1] for model in (here, there)]
    found["ablations"] = _equal(*ablations)
    return found


def _searches(sources: Sequence[str]) -> dict[str, Callable[[Translator], list[str]]]:
    return {
        "greedy": lambda model: model.translate(sources, beam=1),
        "beam 5": lambda model: model.translate(sources, beam=5),
        "sampling": lambda model: model.translate(sources, sample=True, seed=3),
        "MBR": lambda model: model.translate(sources[:8], mbr=True, samples=8),
    }


def _equal(ours: Sequence[object], theirs: Sequence[object]) -> float:
    return round(sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours), 4)


def _difference(ours: Any, theirs: Any) -> float:
    return float(f"{np.abs(ours - theirs).max():.2g}")


def repeat(words: Sequence[str]) -> dict[str, Any]:
    """Train the same run twice, and its second half again from its checkpoint; return differences of the weights."""
    with TemporaryDirectory() as name:
        once, twice, half = (Path(name) / run for run in ("once", "twice", "half"))
        ends = ["weights=last", "trainer.max_steps=8", "trainer.keep_last=2"]
        for folder in (once, twice):
            train([*words, *ends], folder, cache=Path(name) / "cache")
        first = min((once / "checkpoints").glob("last*"), key=lambda path: path.stat().st_mtime)
        train([*words, *ends, f"ckpt_path={first}"], half, cache=Path(name) / "cache")
        weights, *others = (load_file(folder / "model" / "model.safetensors") for folder in (once, twice, half))
    return {
        name: max(_difference(value.numpy(), other[key].numpy()) for key, value in weights.items())
        for name, other in zip(("again", "from half"), others, strict=True)
    }
