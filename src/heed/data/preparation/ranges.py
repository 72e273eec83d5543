"""Duplicates and the sample of ``max_train``, found in one range of digests after the other.

Equal pairs have equal digests, so every duplicate is in the range of its first occurrence, and memory is bounded.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heed.data.digests import Digests, mixed, set_checksum
from heed.data.preparation.arrays import map_array, write_array
from heed.data.preparation.scan import Run, run_path
from heed.data.preparation.workers import Workers
from heed.data.text import Advance

RANGE = 4_000_000
"""Clean pairs in a range of digests: 100 MB of memory."""

REPEATED_PAIR = np.dtype([("run", "<u4"), ("row", "<u4"), ("occurrence", "<u4")])
"""A pair that occurred before: its run, its row in the run, and how often it occurred before."""

DIGEST_LIMIT = 2**64

Limit = tuple[int, int]
"""(digest, occurrence): the first pair, in their order, that is not selected."""


@dataclass(frozen=True)
class ScannedText:
    """The folder in which a text was scanned, and its runs."""

    folder: Path
    runs: Sequence[Run]


@dataclass(frozen=True)
class SelectedPairs:
    """What was selected of the clean pairs of a text.

    Args:
        fingerprint: digest of the selected pairs, whatever their order in the text.
        limit: of the sample; None: there is no sample.
        dropped: number of pairs that the rules "duplicate" and "over max_train" drop.
    """

    fingerprint: str
    limit: Limit | None
    dropped: dict[str, int]


def select_by_digest(
    text: ScannedText,
    heavier: Sequence[ScannedText],
    workers: Workers,
    *,
    clean: int,
    keep_duplicates: bool,
    at_most: int | None,
) -> SelectedPairs:
    """Write which clean pairs of a text are repeated, and find the limit of the sample.

    Args:
        heavier: the texts whose pairs are duplicates in this one.
        clean: number of clean pairs.
        at_most: size of the sample; None: all pairs.
    """
    count = max(1, -(-clean // RANGE))
    bounds = [number * DIGEST_LIMIT // count for number in range(count + 1)]
    tasks = [
        RangeTask(text, heavier, number, low, high, keep_duplicates, None)
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    results = workers.map(select_range, tasks, description="Looking for duplicates", total=clean, unit="pairs")
    candidates = sum(result.selected for result in results)
    dropped = {"duplicate": clean - candidates}
    limit: Limit | None = None
    if at_most is not None and candidates > at_most:
        dropped["over max_train"] = candidates - at_most
        results, limit = _find_limit(tasks, results, at_most)
    sums = np.array([result.checksum for result in results], dtype=np.uint64).sum(axis=0)
    return SelectedPairs(hashlib.blake2b(repr(sums.tolist()).encode(), digest_size=16).hexdigest(), limit, dropped)


@dataclass(frozen=True)
class RangeTask:
    """A range of digests: those of at least ``low`` and below ``high``."""

    text: ScannedText
    heavier: Sequence[ScannedText]
    number: int
    low: int
    high: int
    keep_duplicates: bool
    limit: Limit | None


@dataclass(frozen=True)
class RangeResult:
    """Pairs of a range, and the checksum of the selected ones (`set_checksum`)."""

    clean: int
    selected: int
    checksum: tuple[int, int, int]


def select_range(task: RangeTask, advance: Advance) -> RangeResult:
    """Write which pairs of a range occurred before, and count the selected ones."""
    digests, runs, rows = _read_range(task.text, task.low, task.high)
    occurrence = _occurrences(digests) + _is_heavier(task, digests)
    again = np.flatnonzero(occurrence)
    repeated = np.empty(len(again), REPEATED_PAIR)
    repeated["run"], repeated["row"], repeated["occurrence"] = runs[again], rows[again], occurrence[again]
    repeated = repeated[np.argsort(repeated["run"], kind="stable")]
    write_array(task.text.folder / f"{task.number:05}.repeated.npy", repeated)
    selected = np.ones(len(digests), np.bool_) if task.keep_duplicates else occurrence == 0
    if task.limit is not None:
        digest, number = np.uint64(task.limit[0]), task.limit[1]
        selected &= (digests < digest) | ((digests == digest) & (occurrence < number))
    advance(len(digests))
    checksum = set_checksum(mixed(digests[selected], occurrence[selected]))
    return RangeResult(len(digests), int(selected.sum()), checksum)


def _is_heavier(task: RangeTask, digests: Digests) -> npt.NDArray[np.uint32]:
    """Return 1 for the pairs that a heavier text has, too, and 0 for the others."""
    found = np.zeros(len(digests), np.uint32)
    for text in task.heavier:
        theirs, _, _ = _read_range(text, task.low, task.high)
        found |= np.isin(digests, theirs)
    return found


def _read_range(
    text: ScannedText, low: int, high: int
) -> tuple[Digests, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return digest, run and row of the clean pairs of a range, by digest and then in the order of the text."""
    pieces, runs = [], []
    for run in text.runs:
        pairs = map_array(run_path(text.folder, run.part, run.number).with_suffix(".pairs.npy"))
        start = np.searchsorted(pairs["digest"], np.uint64(low))
        stop = np.searchsorted(pairs["digest"], np.uint64(high - 1), side="right")
        pieces.append(pairs[start:stop])
        runs.append(np.full(int(stop - start), run.index, dtype=np.uint32))
    pairs = np.concatenate(pieces)
    order = np.argsort(pairs["digest"], kind="stable")
    return pairs["digest"][order], np.concatenate(runs)[order], pairs["row"][order]


def _occurrences(digests: Digests) -> npt.NDArray[np.uint32]:
    """Return, for sorted digests, how many equal ones are before each."""
    is_first = np.ones(len(digests), np.bool_)
    is_first[1:] = digests[1:] != digests[:-1]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(digests)), 0))
    return (np.arange(len(digests)) - first).astype(np.uint32)


def _find_limit(
    tasks: Sequence[RangeTask], results: Sequence[RangeResult], at_most: int
) -> tuple[list[RangeResult], Limit]:
    """Return the results of the ranges up to the limit of the sample, and the limit."""
    before = np.cumsum([0, *(result.selected for result in results)])
    number = int(np.searchsorted(before, at_most, side="right")) - 1
    task = tasks[number]
    digests, _, _ = _read_range(task.text, task.low, task.high)
    occurrence = _occurrences(digests) + _is_heavier(task, digests)
    candidates = np.arange(len(digests)) if task.keep_duplicates else np.flatnonzero(occurrence == 0)
    first = candidates[at_most - before[number]]
    limit = int(digests[first]), int(occurrence[first])
    return [*results[:number], select_range(replace(task, limit=limit), lambda _: None)], limit
