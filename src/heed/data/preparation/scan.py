"""The first pass over the text: apply the cleaning rules, and keep the digests of the clean pairs.

A part is cut into runs of about ``RUN`` pairs. Each run leaves two files: the first violated rule of each pair, and the
digests of the clean pairs in ascending order.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from heed.data.cleaning import NO_RULE, Cleaning, Violations
from heed.data.digests import Digests, pair_digests
from heed.data.preparation.arrays import write_array
from heed.data.text import Advance, Block, Part
from heed.files import replacing

RUN = 250_000
"""Pairs after which a run ends, with the block that reaches them."""

CLEAN_PAIR = np.dtype([("digest", "<u8"), ("row", "<u4")])
"""A clean pair: its digest and its row in the run."""


@dataclass(frozen=True)
class Run:
    """Consecutive pairs of a part."""

    index: int
    """Among the runs of all parts."""
    part: int
    number: int
    """Among the runs of its part."""
    first: int
    """Number of pairs before it, in all parts."""
    pairs: int


@dataclass(frozen=True)
class Scanned:
    """What the scan found in a part."""

    runs: list[int]
    """Pairs of each run."""
    violations: list[int]
    """Pairs for which each of ``RULES`` is the first that they violate, and clean pairs at the end."""
    clean_chars: int
    """Characters of both sides of the pairs that violate no rule."""


@dataclass(frozen=True)
class ScanTask:
    """A part to scan.

    Args:
        number: index of the part.
        part: the text.
        swapped: swap source and target.
        cleaning: the rules.
        min_score: see `Cleaning.violations`.
        held_out: files of the digests that `Cleaning.violations` needs.
        folder: where the results are written.
    """

    number: int
    part: Part
    swapped: bool
    cleaning: Cleaning
    min_score: float | None
    held_out: Sequence[Path]
    folder: Path


def scan_part(task: ScanTask, advance: Advance) -> Scanned:
    """Scan a part, unless an interrupted preparation has done so."""
    done = _result_file(task.folder, task.number)
    if done.exists():
        advance(task.part.size)
        return Scanned(**json.loads(done.read_text(encoding="utf-8")))
    held_out = [np.load(file) for file in task.held_out]
    runs, chars, counts = [], 0, np.zeros(NO_RULE + 1, dtype=np.int64)
    for run, blocks in enumerate(_runs(read_part(task.part, advance, swapped=task.swapped))):
        violated: list[Violations] = []
        digests: list[Digests] = []
        for block in blocks:
            violated.append(task.cleaning.violations(block, held_out, min_score=task.min_score))
            digests.append(pair_digests(block))
            chars += _count_chars(block, violated[-1] == NO_RULE)
            counts += np.bincount(violated[-1], minlength=NO_RULE + 1)
        runs.append(sum(map(len, violated)))
        _write_run(run_path(task.folder, task.number, run), np.concatenate(violated), np.concatenate(digests))
    scanned = Scanned(runs, counts.tolist(), chars)
    with replacing(done) as partial:
        partial.write_text(json.dumps(asdict(scanned)), encoding="utf-8")
    return scanned


def read_part(part: Part, advance: Advance, *, swapped: bool) -> Iterator[Block]:
    """Yield the non-empty blocks of a part, with source and target swapped on request."""
    for block in part.read(advance):
        if len(block):
            yield block.swapped() if swapped else block


def run_path(folder: Path, part: int, run: int) -> Path:
    """Return the path of a run's files, without their suffixes."""
    return folder / f"{part:05}-{run:03}"


def number_runs(pairs: Sequence[Sequence[int]]) -> list[Run]:
    """Return the runs of all parts; ``pairs`` holds the pairs of each run, by part."""
    runs: list[Run] = []
    first = 0
    for part, sizes in enumerate(pairs):
        for number, size in enumerate(sizes):
            runs.append(Run(len(runs), part, number, first, size))
            first += size
    return runs


def _result_file(folder: Path, part: int) -> Path:
    return folder / f"{part:05}.json"


def _runs(blocks: Iterator[Block]) -> Iterator[Iterator[Block]]:
    """Cut blocks into runs. Each run must be consumed before the next."""
    for first in blocks:
        yield _one_run(first, blocks)


def _one_run(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    pairs = len(first)
    while pairs < RUN and (block := next(rest, None)) is not None:
        yield block
        pairs += len(block)


def _write_run(path: Path, violated: Violations, digests: Digests) -> None:
    clean = np.flatnonzero(violated == NO_RULE)
    pairs = np.empty(len(clean), CLEAN_PAIR)
    # Stable: of equal pairs, the first stays the first.
    order = np.argsort(digests[clean], kind="stable")
    pairs["digest"], pairs["row"] = digests[clean][order], clean[order]
    write_array(path.with_suffix(".pairs.npy"), pairs)
    write_array(path.with_suffix(".violated.npy"), violated)


def _count_chars(block: Block, clean: np.ndarray) -> int:
    return sum(len(src) + len(tgt) for src, tgt, keep in zip(block.src, block.tgt, clean.tolist(), strict=True) if keep)
