"""Compare two runs: weights, metrics, results, translations, files, and the sentences of every step."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    """Differences between a resumed run and the uninterrupted one.

    Attributes:
        lost: number of sentences that were not trained on, although the plan has them.
        repeated: number of sentences that were trained on more often than the plan says.
        order: the sentences are the same, but in other steps.
        weights: largest relative difference of a weight; NaN if tensors are missing or differ in shape.
        metrics: metrics.csv differs.
        results: keys of results.json that differ.
        translations: files that differ.
        files: files that only one of the two run folders has.
    """

    lost: int = 0
    repeated: int = 0
    order: bool = False
    weights: float = 0.0
    metrics: bool = False
    results: tuple[str, ...] = ()
    translations: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def problems(self, *, exact: bool) -> Iterator[str]:
        """Describe the differences that are faults.

        Args:
            exact: both runs had the same number of processes, so they must be equal bit for bit.
        """
        if self.lost:
            yield f"{self.lost} sentences lost"
        if self.repeated:
            yield f"{self.repeated} sentences repeated"
        if self.order:
            yield "sentences in other steps"
        if exact:
            if self.weights != 0:
                yield f"weights differ by {self.weights:.2g}"
            if self.metrics:
                yield "metrics.csv differs"
            if self.results:
                yield f"results.json differs in {', '.join(self.results)}"
            if self.translations:
                yield f"translations differ: {', '.join(self.translations)}"
            if self.files:
                yield f"other files: {', '.join(self.files)}"
        elif not self.weights <= ROUNDING:
            yield f"weights differ by {self.weights:.2g}, more than rounding"


def finished_run(runs: Path) -> Path:
    """Return the only folder in ``runs/NAME`` that has results.

    Raises:
        ValueError: there is none, or more than one.
    """
    found = [path.parent for path in runs.glob("*/results.json")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} finished runs in {runs}: {[path.name for path in found]}")
    return found[0]


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
    counts: Counter[tuple[int, int]] = Counter()
    for epoch, _, parts in steps.values():
        for rows in parts.values():
            counts.update((epoch, row) for row in rows)
    return counts


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
    return Difference(
        lost=(theirs - ours).total(),
        repeated=(ours - theirs).total(),
        order=ours == theirs and steps != reference_steps,
        weights=_largest(_distance(a, b) for a, b in _tensor_pairs(run, reference, checkpoints=exact)),
        metrics=(run / "metrics.csv").read_bytes() != (reference / "metrics.csv").read_bytes(),
        results=_different_results(run, reference),
        translations=tuple(
            path.name
            for path in sorted((reference / "translations").iterdir())
            if path.read_bytes() != (run / "translations" / path.name).read_bytes()
        ),
        files=tuple(sorted(_files(run) ^ _files(reference))),
    )


def _different_results(run: Path, reference: Path) -> tuple[str, ...]:
    ours, theirs = (json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in (run, reference))
    return tuple(
        key for key in sorted({*ours, *theirs}) if key not in TIME_DEPENDENT and ours.get(key) != theirs.get(key)
    )


def _files(folder: Path) -> set[str]:
    """All files of a run folder except locks."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name)
    return {str(path.relative_to(folder)) for path in paths}


def _largest(distances: Iterable[float]) -> float:
    """The largest number, or NaN if one is NaN."""
    found = list(distances)
    return float("nan") if any(map(math.isnan, found)) else max(found)


def _tensor_pairs(
    run: Path, reference: Path, *, checkpoints: bool
) -> Iterator[tuple[torch.Tensor | None, torch.Tensor | None]]:
    """Pair the tensors of the final model, then those of the checkpoints that both runs have."""
    yield from _pair(
        load_file(run / "model" / "model.safetensors"), load_file(reference / "model" / "model.safetensors")
    )
    for path in sorted((reference / "checkpoints").glob("*.ckpt")) if checkpoints else ():
        ours = run / "checkpoints" / path.name
        if ours.exists():
            yield from _pair(_checkpoint_tensors(ours), _checkpoint_tensors(path))


def _checkpoint_tensors(path: Path) -> dict[str, torch.Tensor]:
    return _tensors(torch.load(path, weights_only=True), path.parents[1])


def _pair(
    ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]
) -> Iterator[tuple[torch.Tensor | None, torch.Tensor | None]]:
    for name in sorted({*ours, *theirs}):
        yield ours.get(name), theirs.get(name)


def _tensors(value: Any, folder: Path, path: str = "") -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint by their path in it. File names become relative to the run's ``folder``."""
    if isinstance(value, torch.Tensor):
        return {path.replace(str(folder.resolve()), ""): value}
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    )
    # Lightning neither restores nor uses the last score of a checkpoint callback.
    kept = ((key, part) for key, part in items if key != "current_score")
    return {name: tensor for key, part in kept for name, tensor in _tensors(part, folder, f"{path}/{key}").items()}


def _distance(ours: torch.Tensor | None, theirs: torch.Tensor | None) -> float:
    """Largest difference, relative to the largest value; 0 only where all bits are equal."""
    if ours is None or theirs is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("nan")
    if ours.contiguous().reshape(-1).view(torch.uint8).equal(theirs.contiguous().reshape(-1).view(torch.uint8)):
        return 0.0
    ours, theirs = ours.double(), theirs.double()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)) or 5e-324
