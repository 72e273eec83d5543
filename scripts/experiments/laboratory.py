"""Models for experiments: trained side by side, one core each, and kept for the next time."""

import csv
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heed.compare.models import load_translator
from heed.errors import HeedError
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """A model to train: what to call it, and what ``train.py`` is told on top of the common settings."""

    name: str
    overrides: tuple[str, ...]
    seeds: int
    """How many runs, with the seeds 1, 2, …"""


@dataclass(frozen=True)
class Trained:
    """One finished run."""

    name: str
    seed: int
    folder: Path

    @cached_property
    def results(self) -> dict[str, Any]:
        """Its ``results.json``."""
        return dict(json.loads((self.folder / "results.json").read_text(encoding="utf-8")))

    @cached_property
    def translator(self) -> Translator:
        """Its model, with greedy search."""
        return load_translator(self.folder)

    @property
    def model(self) -> Seq2Seq:
        return self.translator.model

    def bleu(self, split: str) -> float:
        """Of ``valid``, ``test`` or ``long``."""
        results = self.results
        return float((results["valid"] if split == "valid" else results["tests"][split])["bleu"])

    def lines(self, split: str, kind: str) -> list[str]:
        """Of its ``translations/<split>.<kind>``."""
        return (self.folder / "translations" / f"{split}.{kind}").read_text(encoding="utf-8").split("\n")[:-1]

    def meta(self, split: str) -> list[dict[str, Any]]:
        """What is known of each sentence of a split: tag, alignment, antecedent, roles."""
        return [json.loads(line) for line in self.lines(split, "meta.jsonl")]

    def curve(self, column: str) -> list[tuple[float, float]]:
        """(step, value) of a column of its ``metrics.csv``, where it has one."""
        with (self.folder / "metrics.csv").open(encoding="utf-8") as file:
            return [(float(row["step"]), float(row[column])) for row in csv.DictReader(file) if row[column]]


class Laboratory:
    """Trains recipes and keeps the runs.

    Args:
        train: the path of ``train.py``.
        folder: where the runs are kept, in a folder each that is named after everything it was told: what was trained
            once is not trained again, and an interrupted training goes on. What changes in conf/ or in the code is not
            noticed: remove the folder.
        common: settings of all recipes.
        at_once: trainings that run at a time, on one core each.
    """

    def __init__(self, *, train: Path, folder: Path, common: Sequence[str], at_once: int, say: Say) -> None:
        self.train = train
        self.folder = folder
        self.common = tuple(common)
        self.at_once = at_once
        self.say = say

    def runs(self, recipe: Recipe) -> list[Trained]:
        """The runs of a recipe that has been prepared, one for each seed."""
        return [self._run(recipe, seed) for seed in range(1, recipe.seeds + 1)]

    def prepare(self, recipes: Iterable[Recipe]) -> None:
        """Train what is missing.

        Raises:
            HeedError: if a training fails, with its last words.
        """
        wanted = {run.folder: (recipe, run) for recipe in recipes for run in self.runs(recipe)}
        missing = [(recipe, run) for folder, (recipe, run) in wanted.items() if not _finished(folder)]
        self.say(f"{len(wanted)} models, {len(wanted) - len(missing)} of them trained already")
        start = time.monotonic()
        with ThreadPoolExecutor(self.at_once) as pool:
            trainings = {pool.submit(self._train, recipe, run): run for recipe, run in missing}
            for number, done in enumerate(as_completed(trainings), start=1):
                if error := done.exception():
                    pool.shutdown(cancel_futures=True)
                    raise error
                run = trainings[done]
                left = (time.monotonic() - start) / number * (len(missing) - number)
                self.say(
                    f"{number:>3}/{len(missing)}  {run.name}, seed {run.seed}: test BLEU {run.bleu('test'):.1f}, "
                    f"{run.results['train_seconds'] / 60:.1f} min of training; about {left / 60:.0f} min left"
                )

    def _settings(self, recipe: Recipe, seed: int) -> list[str]:
        return [*self.common, *recipe.overrides, f"seed={seed}"]

    def _run(self, recipe: Recipe, seed: int) -> Trained:
        digest = hashlib.sha256("\n".join(self._settings(recipe, seed)).encode()).hexdigest()[:8]
        return Trained(recipe.name, seed, self.folder / f"{recipe.name}-{seed}-{digest}")

    def _train(self, recipe: Recipe, run: Trained) -> None:
        command = [sys.executable, str(self.train), *self._settings(recipe, run.seed), f"hydra.run.dir={run.folder}"]
        if list(run.folder.glob("checkpoints/last-*.ckpt")):
            command.append("resume=true")
        # More threads for one training gain less than more trainings.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            last_words = "\n".join(done.stdout.strip().splitlines()[-5:])
            raise HeedError(f"{' '.join(command)}\nended with status {done.returncode}:\n{last_words}")


def _finished(folder: Path) -> bool:
    return (folder / "results.json").is_file()


def spread(values: Iterable[float]) -> dict[str, Any]:
    """Values over seeds as numbers.json has them: all, their mean and their standard deviation (None of one)."""
    array = np.array(list(values), dtype=float)
    return {
        "mean": float(array.mean()),
        "sd": float(array.std(ddof=1)) if len(array) > 1 else None,
        "values": array.tolist(),
    }


def shown(found: Mapping[str, Any], digits: int = 1) -> str:
    """`spread` in words: 93.1 ± 0.4."""
    sd = "" if found["sd"] is None else f" ± {found['sd']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{sd}"
