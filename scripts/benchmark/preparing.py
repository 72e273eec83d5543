"""``benchmark prepare``: preparation, start, memory and speed of training by the size of the corpus."""

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import numpy as np
import numpy.typing as npt
from lightning.pytorch.callbacks import Callback

from benchmark.measure import anonymous_mib, resident_mib
from benchmark.peers import in_new_process

VOCABULARY = 50_000
BLOCK = 50_000
"""Sentences that are generated at once."""
SYLLABLES = [consonant + vowel for consonant in "bcdfghklmnprstvwz" for vowel in ("a", "e", "i", "o", "u", "ei", "en")]

HELD_OUT = 100
"""Pairs of the validation set."""
WARM_UP = 10
"""Steps before the speed is measured."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--pairs", default="100000,1000000,10000000", help="sizes of the corpora (default: %(default)s)"
    )
    parser.add_argument("--processes", default="1,2", help="numbers of processes (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps of training (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="trainings on each corpus (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="folder to keep the generated text in (default: temporary)")
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE", help="options of train.py")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the section ``prepare`` of bench.json."""
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=arguments.folder) as temporary:
        scratch = Path(temporary)
        text = arguments.folder or scratch
        sizes = [int(pairs) for pairs in arguments.pairs.split(",")]
        prepared = [_prepare_all(pairs, text, scratch / str(pairs), arguments) for pairs in sizes]
        # The sizes take turns, so that a slow phase of the machine affects all of them.
        runs = [[_train_once(options, scratch) for _, options in prepared] for _ in range(arguments.rounds)]
        return {
            "prepare": [
                found | {name: median(run[name] for run in trainings) for name in trainings[0]}
                for (found, _), trainings in zip(prepared, zip(*runs, strict=True), strict=True)
            ]
        }


def _prepare_all(
    pairs: int, text: Path, scratch: Path, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[str]]:
    """Prepare a corpus with each number of processes. Return the figures and the options of a run on this corpus."""
    train, valid = write_text(text, pairs), write_text(text, HELD_OUT, seed=2)
    options = [
        "data=files", f"data.train=[[{train[0]},{train[1]}]]", f"data.valid=[[{valid[0]},{valid[1]}]]",
        "data.test=null", "test=false", "data.src_lang=xx", "data.tgt_lang=yy", "model=transformer_tiny",
        "tokenizer.vocab_size=8000", "batching.batch_tokens=4000", "logger=none", "callbacks.attention_maps=null",
        f"trainer.max_steps={arguments.steps}", f"trainer.validate_every={arguments.steps}", f"cache_dir={scratch}",
        *arguments.set,
    ]  # fmt: skip
    found: dict[str, Any] = {"pairs": pairs, "megabytes": round(sum(file.stat().st_size for file in train) / 1e6)}
    for processes in map(int, arguments.processes.split(",")):
        shutil.rmtree(scratch, ignore_errors=True)
        seconds, digest = in_new_process(_prepare, [*options, f"data.preparation.num_proc={processes}"])
        found |= {f"prepare_seconds_{processes}": round(seconds, 1), "digest": digest}
        print(f"prepare: {pairs:,} pairs with {processes} processes: {seconds:,.1f} s", flush=True)
    found["cache_megabytes"] = round(sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file()) / 1e6)
    return found, options


def _train_once(options: list[str], scratch: Path) -> dict[str, float]:
    """Train on a prepared corpus in a new run folder."""
    with TemporaryDirectory(dir=scratch) as folder:
        found = in_new_process(_train, options, Path(folder), time.time())
    print(
        f"train: first step after {found['start_seconds']:.1f} s, then {found['anonymous_mib']:,.0f} MiB (with "
        f"mapped files {found['resident_mib']:,.0f} MiB) and {found['tokens_per_second']:,.0f} tokens/s",
        flush=True,
    )
    return found


def _prepare(options: Sequence[str]) -> tuple[float, str]:
    """Prepare a corpus. Return the time in seconds and the digest of the result."""
    from heed.launch.clients import prepare

    start = time.perf_counter()
    report = prepare(options)
    digest = next(line for line in report.splitlines() if line.startswith("Digest:")).split()[-1]
    return time.perf_counter() - start, digest


class _Clock(Callback):  # type: ignore[misc]
    """Records when the first step ends, and the speed and memory after the last one."""

    def __init__(self, begin: float, steps: int) -> None:
        self.begin, self.steps = begin, steps
        self.found: dict[str, float] = {}
        self._tokens, self._start = 0, 0.0

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._tokens += batch.src_tokens + batch.tgt_tokens
        if trainer.global_step == 1:
            self.found["start_seconds"] = round(time.time() - self.begin, 1)
        if trainer.global_step == WARM_UP:
            self._tokens, self._start = 0, time.perf_counter()
        if trainer.global_step == self.steps:
            self.found["tokens_per_second"] = round(self._tokens / (time.perf_counter() - self._start))
            self.found["resident_mib"] = round(resident_mib())
            self.found["anonymous_mib"] = round(anonymous_mib())


def _train(options: Sequence[str], folder: Path, begin: float) -> dict[str, float]:
    """Train on a prepared corpus.

    Args:
        begin: when the process was started, in seconds since the epoch.
    """
    from heed.launch.compose import compose
    from heed.launch.plan import settle
    from heed.launch.run import train

    plan = settle(compose(options))
    clock = _Clock(begin, plan.options["trainer"]["max_steps"])
    train(plan, folder, [clock])
    return clock.found


def write_text(folder: Path, pairs: int, *, seed: int = 1) -> tuple[Path, Path]:
    """Write ``train-PAIRS.en`` and ``.de``, unless they exist, and return their paths.

    A target sentence is its source sentence, word for word in another language. Words follow Zipf's law; sentences have
    log-normal lengths with a mean of 20 words, about 125 bytes on each side.
    """
    rng = np.random.default_rng(seed)
    files = folder / f"train-{pairs}.en", folder / f"train-{pairs}.de"
    if all(file.exists() for file in files):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    vocabularies = [_words(rng), _words(rng)]
    weights = 1 / np.arange(1, VOCABULARY + 1)
    edges = np.cumsum(weights / weights.sum())
    partial = [file.with_name(f"{file.name}.partial") for file in files]
    with partial[0].open("w", encoding="utf-8") as src, partial[1].open("w", encoding="utf-8") as tgt:
        for start in range(0, pairs, BLOCK):
            lengths = np.clip(rng.lognormal(2.85, 0.5, min(BLOCK, pairs - start)), 3, 80).astype(np.int64)
            words = np.searchsorted(edges, rng.random(int(lengths.sum()))).clip(max=VOCABULARY - 1)
            for side, vocabulary in zip((src, tgt), vocabularies, strict=True):
                sentences = np.split(vocabulary[words], np.cumsum(lengths)[:-1])
                side.writelines(f"{' '.join(sentence.tolist())}.\n" for sentence in sentences)
    for file, finished in zip(partial, files, strict=True):
        file.replace(finished)
    return files


def _words(rng: np.random.Generator) -> npt.NDArray[np.object_]:
    """Return words of one to four syllables; the frequent ones are short."""
    lengths = np.clip(1 + np.log2(np.arange(1, VOCABULARY + 1)) / 5 + rng.normal(0, 0.5, VOCABULARY), 1, 5).astype(int)
    return np.array(["".join(rng.choice(SYLLABLES, length)) for length in lengths], dtype=object)
