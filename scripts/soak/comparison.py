"""Compare two runs: weights, metrics, results, translations, files, and the sentences of every step."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from soak.process import Attempt

Steps = dict[int, tuple[int, int, dict[str, tuple[int, ...]]]]
"""By global step: epoch, number within the epoch, and the sentences of each micro-batch."""

TIME_DEPENDENT = ("train_seconds", "tokens_per_second", "decode_seconds", "data_wait", "model_dir", "git")
"""The entries of results.json that depend on the clock, the folder or the checkout."""
ROUNDING = 1e-3
"""Largest difference of a weight between process counts, relative to the tensor's largest weight."""


@dataclass
class Difference:
    """Differences between a resumed run and the uninterrupted one."""

    lost: int
    """Sentences that were not trained on, although the plan has them."""
    repeated: int
    """Sentences that were trained on more often than the plan says."""
    order: bool
    """The sentences are the same, but in other steps."""
    weights: float
    """Largest relative difference of a weight; infinite if tensors are missing or differ in shape."""
    metrics: bool
    """metrics.csv differs."""
    results: tuple[str, ...]
    """Keys of results.json that differ."""
    translations: tuple[str, ...]
    """Files that differ."""
    files: tuple[str, ...]
    """Files that only one of the two run folders has."""

    def problems(self, *, exact: bool) -> list[str]:
        """Describe the differences that are faults.

        Args:
            exact: both runs had the same number of processes, so they must be equal bit for bit.
        """
        found = {
            f"{self.lost} sentences lost": self.lost,
            f"{self.repeated} sentences repeated": self.repeated,
            "sentences in other steps": self.order,
            f"weights differ by {self.weights:.2g}": self.weights > (0 if exact else ROUNDING),
            "metrics.csv differs": exact and self.metrics,
            f"results.json differs in {', '.join(self.results)}": exact and self.results,
            f"translations differ: {', '.join(self.translations)}": exact and self.translations,
            f"other files: {', '.join(self.files)}": exact and self.files,
        }
        return [text for text, is_fault in found.items() if is_fault]


def lineage(attempts: Sequence[Attempt]) -> Steps:
    """Return the steps that led to the final weights.

    An attempt starts at the step of its checkpoint, which discards later steps of earlier attempts.
    """
    steps: Steps = {}
    for attempt in attempts:
        if attempt.start is None:
            continue
        steps = {step: done for step, done in steps.items() if step <= attempt.start}
        ranks: dict[int, set[int]] = {}
        for event in attempt.events:
            if event["event"] != "step":
                continue
            step, pid = event["step"], event["pid"]
            if step not in ranks:
                ranks[step] = set()
                steps[step] = (event["epoch"], event["number"], {})
            assert pid not in ranks[step], f"step {step} was taken twice by process {pid}"
            ranks[step].add(pid)
            parts = steps[step][2]
            for number, rows in event["sentences"].items():
                # The same micro-batch on two ranks counts twice.
                parts[number] = (*parts.get(number, ()), *rows)
    return steps


def sentences(steps: Steps) -> "Counter[tuple[int, int]]":
    """Count how often each (epoch, sentence) was trained on."""
    return Counter((epoch, row) for epoch, _, parts in steps.values() for rows in parts.values() for row in rows)


def check_plan(steps: Steps, train_pairs: int) -> list[str]:
    """Check that steps 1, 2, … have each sentence exactly once in every epoch (at most once in the last one)."""
    problems = []
    if sorted(steps) != list(range(1, len(steps) + 1)):
        problems.append(f"steps are missing: {sorted(set(range(1, max(steps, default=0) + 1)) - set(steps))}")
    counts = sentences(steps)
    if repeated := [key for key, count in counts.items() if count > 1]:
        problems.append(f"trained on twice in one epoch: {repeated[:5]}")
    last = max((epoch for epoch, _, _ in steps.values()), default=0)
    for epoch in range(last):
        seen = sum(key[0] == epoch for key in counts)
        if seen != train_pairs:
            problems.append(f"epoch {epoch} has {seen} of {train_pairs} sentences")
    return problems


def compare(run: Path, steps: Steps, reference: Path, reference_steps: Steps, *, exact: bool) -> Difference:
    """Compare a finished run with the uninterrupted one.

    Args:
        steps, reference_steps: their `lineage`.
        exact: both runs had the same number of processes: compare checkpoints, too.
    """
    ours, theirs = sentences(steps), sentences(reference_steps)
    results, others = (json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in (run, reference))
    return Difference(
        lost=(theirs - ours).total(),
        repeated=(ours - theirs).total(),
        order=ours == theirs and steps != reference_steps,
        weights=max(_distances(run, reference, checkpoints=exact)),
        metrics=(run / "metrics.csv").read_bytes() != (reference / "metrics.csv").read_bytes(),
        results=tuple(
            key for key in sorted({*results, *others} - {*TIME_DEPENDENT}) if results.get(key) != others.get(key)
        ),
        translations=tuple(
            path.name
            for path in sorted((reference / "translations").iterdir())
            if path.read_bytes() != (run / "translations" / path.name).read_bytes()
        ),
        files=tuple(sorted(_files(run) ^ _files(reference))),
    )


def _files(folder: Path) -> set[str]:
    """All files of a run folder except locks, those of logger=csv, one for each part of a run, and exports."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and "lock" not in path.name)
    return {str(path) for path in paths if path.parts[0] != "log" and "ctranslate2" not in path.parts}


def _distances(run: Path, reference: Path, *, checkpoints: bool) -> Iterator[float]:
    """Compare the tensors of the final model, then of the checkpoints that both runs have."""
    names = [path.name for path in (reference / "checkpoints").glob("*.ckpt")] if checkpoints else []
    for file in ("model/model.safetensors", *(f"checkpoints/{name}" for name in names)):
        if (run / file).exists() or file.startswith("model"):
            ours, theirs = (dict(_tensors(_load(folder / file), folder)) for folder in (run, reference))
            yield from (_distance(ours.get(name), theirs.get(name)) for name in ours.keys() | theirs.keys())


def _load(file: Path) -> Any:
    return torch.load(file, weights_only=True) if file.suffix == ".ckpt" else load_file(file)


def _tensors(value: Any, folder: Path, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of a checkpoint by their path in it. File names become relative to the run's ``folder``."""
    if isinstance(value, torch.Tensor):
        yield path.replace(str(folder.resolve()), ""), value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, part in parts:
        if key != "current_score":  # the last score of a callback: Lightning neither restores nor uses it
            yield from _tensors(part, folder, f"{path}/{key}")


def _distance(ours: torch.Tensor | None, theirs: torch.Tensor | None) -> float:
    """Largest difference, relative to the largest value; 0 only where all bits are equal."""
    if ours is None or theirs is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.contiguous().reshape(-1).view(torch.uint8).equal(theirs.contiguous().reshape(-1).view(torch.uint8)):
        return 0.0
    ours, theirs = ours.double(), theirs.double()
    distance = float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)) or 5e-324
    return float("inf") if math.isnan(distance) else distance
