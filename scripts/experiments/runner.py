"""Train the small models of experiments in parallel, one core each, and keep them for the next call."""

import csv
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.inference.loading import load
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""


@dataclass(frozen=True)
class ModelSpec:
    """A model to train."""

    name: str
    """Part of the run folder's name."""
    overrides: tuple[str, ...]
    """Options of ``train.py``, in addition to the runner's common ones."""
    seeds: int
    """Number of runs, with the seeds 1, 2, …"""


@dataclass(frozen=True)
class TrainedModel:
    """The run folder of one model and seed."""

    name: str
    seed: int
    folder: Path

    @cached_property
    def results(self) -> dict[str, Any]:
        """The content of ``results.json``."""
        return dict(json.loads((self.folder / "results.json").read_text(encoding="utf-8")))

    @cached_property
    def translator(self) -> Translator:
        """The trained model. Experiments search with ``beam=1``."""
        return load(self.folder, max_tokens=None)

    @property
    def model(self) -> Seq2Seq:
        return self.translator.model

    def bleu(self, split: str) -> float:
        """Return the BLEU of ``valid``, ``test`` or ``long``."""
        results = self.results
        return float((results["valid"] if split == "valid" else results["tests"][split])["bleu"])

    def lines(self, split: str, kind: str) -> list[str]:
        """Return the lines of ``translations/<split>.<kind>``."""
        return (self.folder / "translations" / f"{split}.{kind}").read_text(encoding="utf-8").split("\n")[:-1]

    def meta(self, split: str) -> list[dict[str, Any]]:
        """Return the tag, alignment, antecedent and roles of each sentence of a split."""
        return [json.loads(line) for line in self.lines(split, "meta.jsonl")]

    def curve(self, column: str) -> list[tuple[float, float]]:
        """Return (step, value) for each row of ``metrics.csv`` that has a value in this column."""
        with (self.folder / "metrics.csv").open(encoding="utf-8") as file:
            return [(float(row["step"]), float(row[column])) for row in csv.DictReader(file) if row[column]]


@dataclass(frozen=True)
class ExperimentRunner:
    """Trains models by ``train.py`` and caches the runs.

    The name of a run folder contains a digest of all options, so that a model is trained once and an interrupted
    training is resumed. The digest does not cover ``conf/`` and the code: delete the folder after changing them.
    """

    folder: Path
    """Parent of the run folders."""
    common: Sequence[str]
    """Options of all models."""
    train: Path = ROOT / "train.py"
    parallel: int = os.cpu_count() or 1
    """Number of trainings at a time, on one core each."""
    seeds: int | None = None
    """Number of runs of each model; None: as its `ModelSpec` says."""

    def trained(self, spec: ModelSpec) -> list[TrainedModel]:
        """Return the runs of a model, one for each seed. `train_missing` must have trained them."""
        return [self._run(spec, seed) for seed in range(1, (self.seeds or spec.seeds) + 1)]

    def train_missing(self, specs: Iterable[ModelSpec]) -> None:
        """Train each model and seed that has no finished run.

        Raises:
            HeedError: a training failed; with the last lines of its output.
        """
        by_folder = {run.folder: (spec, run) for spec in specs for run in self.trained(spec)}
        missing = [pair for folder, pair in by_folder.items() if not (folder / "results.json").is_file()]
        print(f"{len(by_folder)} models, {len(by_folder) - len(missing)} of them trained already", flush=True)
        start = time.monotonic()
        with ThreadPoolExecutor(self.parallel) as pool:
            trainings = {pool.submit(self._train, spec, run): run for spec, run in missing}
            for number, done in enumerate(as_completed(trainings), start=1):
                if error := done.exception():
                    pool.shutdown(cancel_futures=True)
                    raise error
                run = trainings[done]
                left = (time.monotonic() - start) / number * (len(missing) - number)
                print(
                    f"{number:>3}/{len(missing)}  {run.name}, seed {run.seed}: test BLEU {run.bleu('test'):.1f}, "
                    f"{run.results['train_seconds'] / 60:.1f} min of training; about {left / 60:.0f} min left",
                    flush=True,
                )

    def _options(self, spec: ModelSpec, seed: int) -> list[str]:
        return [*self.common, *spec.overrides, f"seed={seed}"]

    def _run(self, spec: ModelSpec, seed: int) -> TrainedModel:
        digest = hashlib.sha256("\n".join(self._options(spec, seed)).encode()).hexdigest()[:8]
        return TrainedModel(spec.name, seed, self.folder / f"{spec.name}-{seed}-{digest}")

    def _train(self, spec: ModelSpec, run: TrainedModel) -> None:
        command = [sys.executable, str(self.train), *self._options(spec, run.seed), f"folder={run.folder}"]
        if list(run.folder.glob("checkpoints/last-*.ckpt")):
            command.append("resume=true")
        # Several trainings on one thread each are faster than one training on several threads.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
        )
        if done.returncode:
            last_lines = "\n".join(done.stdout.strip().splitlines()[-5:])
            raise HeedError(f"{' '.join(command)}\nended with exit status {done.returncode}:\n{last_lines}")
