"""The selection of training pairs: the scan of all parts, the removal of duplicates, and the sample of ``max_train``.

Equal pairs have equal digests, so duplicates are found in one range of digests after the other, and in bounded memory.
A sample consists of the pairs with the smallest digests: it does not depend on the order of the text, which may be
sorted by length, and smaller samples are subsets of larger ones.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.data.cleaning import EXAMPLES_PER_RULE, NO_RULE, RULES, Cleaning, CleaningReport, DroppedPair, Violations
from heed.data.digests import Digests, mixed, set_checksum
from heed.data.preparation.arrays import VERIFIED_BYTES, files_digest, map_array, write_array
from heed.data.preparation.scan import ScanTask, read_part, run_path, scan_part
from heed.data.preparation.workers import Workers
from heed.data.text import Advance, Block, Part
from heed.errors import HeedError
from heed.files import replacing

RANGE = 4_000_000
"""Clean pairs in a range of digests: 100 MB of memory."""

REPEATED_PAIR = np.dtype([("run", "<u4"), ("row", "<u4"), ("occurrence", "<u4")])
"""A pair that occurred before: its run, its row in the run, and how often it occurred before."""

DIGEST_LIMIT = 2**64

Limit = tuple[int, int]
"""(digest, occurrence): the first pair, in their order, that is not selected."""


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
class SelectionSettings:
    """What decides which pairs are selected."""

    cleaning: Cleaning
    min_score: float | None
    at_most: int | None
    """Size of the sample; None: all clean pairs."""


class Selection:
    """The selected pairs of a text, as files that `select_pairs` wrote to a folder."""

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        """
        Args:
            folder: of the files.
            verify: compare the files with their digest, unless they are large.

        Raises:
            OSError, ValueError, KeyError, TypeError: if a file is missing or damaged.
        """
        self.folder = folder
        manifest = json.loads((folder / "selection.json").read_text())
        self.fingerprint: str = manifest["fingerprint"]
        """Digest of the selected pairs, whatever their order in the text."""
        self.clean_chars: int = manifest["clean_chars"]
        """Characters of both sides of the clean pairs, with duplicates."""
        self.limit: Limit | None = tuple(manifest["limit"]) if manifest["limit"] else None
        self.keep_duplicates: bool = manifest["keep_duplicates"]
        self.runs = _number_runs(manifest["runs"])
        self.report = CleaningReport(
            manifest["total"],
            manifest["dropped"],
            {rule: [DroppedPair(**pair) for pair in pairs] for rule, pairs in manifest["examples"].items()},
        )

        if verify:
            files = _array_files(folder)
            if (
                sum(file.stat().st_size for file in files) <= VERIFIED_BYTES
                and files_digest(files) != manifest["files"]
            ):
                raise ValueError(f"{folder} is damaged")

    def __len__(self) -> int:
        return self.report.kept

    @cached_property
    def _repeated(self) -> list[npt.NDArray[Any]]:
        return [map_array(path) for path in sorted(self.folder.glob("*.repeated.npy"))]

    def decide(self, run: Run) -> tuple[Violations, Digests]:
        """Return the first violated rule of each pair of a run, and the digests that order the selected pairs."""
        path = run_path(self.folder, run.part, run.number)
        violated, clean = np.load(path.with_suffix(".violated.npy")), np.load(path.with_suffix(".pairs.npy"))
        keys = np.zeros(len(violated), dtype=np.uint64)
        keys[clean["row"]] = clean["digest"]
        occurrence = np.zeros(len(violated), dtype=np.uint32)
        for repeated in self._repeated:
            start, stop = np.searchsorted(repeated["run"], [run.index, run.index + 1])
            occurrence[repeated["row"][start:stop]] = repeated["occurrence"][start:stop]
        if not self.keep_duplicates:
            violated[occurrence > 0] = RULES.index("duplicate")
        if self.limit is not None:
            digest, number = np.uint64(self.limit[0]), self.limit[1]
            beyond = (keys > digest) | ((keys == digest) & (occurrence >= number))
            violated[beyond & (violated == NO_RULE)] = RULES.index("over max_train")
        return violated, mixed(keys, occurrence)


def select_pairs(
    folder: Path,
    parts: Sequence[Part],
    settings: SelectionSettings,
    held_out: Sequence[Digests],
    workers: Workers,
    *,
    swapped: bool,
    heavier: Sequence[Path] = (),
) -> Selection:
    """Scan a text and select its training pairs. What an interrupted selection has scanned is not scanned again.

    Args:
        folder: where the files are written.
        parts: the text.
        held_out: digests of held-out sentences, see `Cleaning.violations`.
        swapped: swap source and target.
        heavier: folders of the selections whose pairs are duplicates here.

    Raises:
        HeedError: if the text is invalid or has no sentences.
    """
    held_out_files = [folder / f"held_out.{side}.npy" for side, _ in zip(("src", "tgt"), held_out, strict=False)]
    for file, digests in zip(held_out_files, held_out, strict=True):
        write_array(file, digests)
    tasks = [
        ScanTask(number, part, swapped, settings.cleaning, settings.min_score, held_out_files, folder)
        for number, part in enumerate(parts)
    ]
    size = sum(part.size for part in parts)
    scanned = workers.map(scan_part, tasks, description="Reading and cleaning", total=size, unit="B")
    runs = _number_runs([part.runs for part in scanned])
    if not runs:
        raise HeedError(f"{', '.join(part.name for part in parts)}: no sentences.")
    violations = np.sum([part.violations for part in scanned], axis=0)
    ranges = _Ranges(folder, runs, heavier, clean=int(violations[NO_RULE]), settings=settings)
    selected = ranges.select(workers)
    dropped = dict(zip(RULES, violations.tolist(), strict=False))
    manifest = {
        "fingerprint": selected.fingerprint,
        "total": sum(run.pairs for run in runs),
        "clean_chars": sum(part.clean_chars for part in scanned),
        "limit": selected.limit,
        "keep_duplicates": not settings.cleaning.drop_duplicates,
        "runs": [part.runs for part in scanned],
        "dropped": dropped | selected.dropped,
        "examples": {},
        "files": files_digest(_array_files(folder)),
    }
    _write_manifest(folder, manifest)
    examples = _find_examples(Selection(folder), parts, swapped=swapped)
    _write_manifest(folder, manifest | {"examples": examples})
    return Selection(folder)


def _number_runs(pairs: Sequence[Sequence[int]]) -> list[Run]:
    """Return the runs of all parts; ``pairs`` holds the pairs of each run, by part."""
    runs: list[Run] = []
    first = 0
    for part, sizes in enumerate(pairs):
        for number, size in enumerate(sizes):
            runs.append(Run(len(runs), part, number, first, size))
            first += size
    return runs


def _array_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npy"))


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    with replacing(folder / "selection.json") as file:
        file.write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")


# ---- duplicates and the sample, by ranges of digests


@dataclass(frozen=True)
class RangeTask:
    """A range of digests: those of at least ``low`` and below ``high``."""

    folder: Path
    runs: Sequence[Run]
    heavier: Sequence[Path]
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
    digests, runs, rows = _read_range(task.folder, task.runs, task.low, task.high)
    occurrence = _occurrences(digests) + _is_heavier(task, digests)
    again = np.flatnonzero(occurrence)
    repeated = np.empty(len(again), REPEATED_PAIR)
    repeated["run"], repeated["row"], repeated["occurrence"] = runs[again], rows[again], occurrence[again]
    repeated = repeated[np.argsort(repeated["run"], kind="stable")]
    write_array(task.folder / f"{task.number:05}.repeated.npy", repeated)
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
    for folder in task.heavier:
        theirs, _, _ = _read_range(folder, Selection(folder).runs, task.low, task.high)
        found |= np.isin(digests, theirs)
    return found


def _read_range(
    folder: Path, all_runs: Sequence[Run], low: int, high: int
) -> tuple[Digests, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return digest, run and row of the clean pairs of a range, by digest and then in the order of the text."""
    pieces, runs = [], []
    for run in all_runs:
        pairs = map_array(run_path(folder, run.part, run.number).with_suffix(".pairs.npy"))
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


@dataclass(frozen=True)
class _Selected:
    fingerprint: str
    limit: Limit | None
    dropped: dict[str, int]


class _Ranges:
    """All ranges of digests of a scanned text."""

    def __init__(
        self, folder: Path, runs: Sequence[Run], heavier: Sequence[Path], *, clean: int, settings: SelectionSettings
    ) -> None:
        count = max(1, -(-clean // RANGE))
        bounds = [number * DIGEST_LIMIT // count for number in range(count + 1)]
        keep = not settings.cleaning.drop_duplicates
        self.tasks = [
            RangeTask(folder, runs, heavier, number, low, high, keep, None)
            for number, (low, high) in enumerate(pairwise(bounds))
        ]
        self.clean = clean
        self.at_most = settings.at_most

    def select(self, workers: Workers) -> _Selected:
        """Find the duplicates and the limit of the sample."""
        results = workers.map(
            select_range, self.tasks, description="Looking for duplicates", total=self.clean, unit="pairs"
        )
        candidates = sum(result.selected for result in results)
        dropped = {"duplicate": self.clean - candidates}
        limit: Limit | None = None
        if self.at_most is not None and candidates > self.at_most:
            dropped["over max_train"] = candidates - self.at_most
            results, limit = self._limit(results, self.at_most)
        sums = np.array([result.checksum for result in results], dtype=np.uint64).sum(axis=0)
        fingerprint = hashlib.blake2b(repr(sums.tolist()).encode(), digest_size=16).hexdigest()
        return _Selected(fingerprint, limit, dropped)

    def _limit(self, results: Sequence[RangeResult], at_most: int) -> tuple[list[RangeResult], Limit]:
        """Return the ranges up to the limit, and the limit."""
        before = np.cumsum([0, *(result.selected for result in results)])
        number = int(np.searchsorted(before, at_most, side="right")) - 1
        task = self.tasks[number]
        digests, _, _ = _read_range(task.folder, task.runs, task.low, task.high)
        occurrence = _occurrences(digests) + _is_heavier(task, digests)
        candidates = np.arange(len(digests)) if task.keep_duplicates else np.flatnonzero(occurrence == 0)
        first = candidates[at_most - before[number]]
        limit = int(digests[first]), int(occurrence[first])
        return [*results[:number], select_range(replace(task, limit=limit), lambda _: None)], limit


# ---- the text of pairs


def read_selected(
    selection: Selection, part: Part, number: int, advance: Advance, *, swapped: bool
) -> Iterator[tuple[Run, Block, Digests]]:
    """Yield the selected pairs of a part, block by block, with their run and the digests that order them.

    Args:
        number: index of the part.

    Raises:
        HeedError: if the text is not the one that was scanned.
    """
    runs = iter([run for run in selection.runs if run.part == number])
    run: Run | None = None
    row = 0
    violated, keys = np.zeros(0, np.uint8), np.zeros(0, np.uint64)
    for block in read_part(part, advance, swapped=swapped):
        if run is None or row == run.pairs:
            run, row = next(runs, None), 0
            if run is not None:
                violated, keys = selection.decide(run)
        if run is None or row + len(block) > run.pairs:
            raise changed_error(part.name)
        chosen = np.flatnonzero(violated[row : row + len(block)] == NO_RULE)
        yield run, block.take(chosen.tolist()), keys[row : row + len(block)][chosen]
        row += len(block)
    if next(runs, None) is not None or (run is not None and row < run.pairs):
        raise changed_error(part.name)


def changed_error(name: str) -> HeedError:
    """Return the error for a text that is not the one that was scanned."""
    return HeedError(f"{name} changed while it was read: start again when nothing writes to it.")


def _find_examples(selection: Selection, parts: Sequence[Part], *, swapped: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the first dropped pairs of each rule, as `DroppedPair`s."""
    wanted: dict[int, dict[int, str]] = {}  # the rows to read, by index of the run
    missing = {rule: min(count, EXAMPLES_PER_RULE) for rule, count in selection.report.dropped.items()}
    for run in selection.runs:
        if not any(missing.values()):
            break
        violated, _ = selection.decide(run)
        for rule, count in missing.items():
            rows = np.flatnonzero(violated == RULES.index(rule))[:count]
            missing[rule] -= len(rows)
            wanted.setdefault(run.index, {}).update(dict.fromkeys(rows.tolist(), rule))
    examples: dict[str, list[dict[str, Any]]] = {rule: [] for rule in RULES}
    for number, part in enumerate(parts):
        runs = [run for run in selection.runs if run.part == number]
        wanted_rows = {run.first + row: rule for run in runs for row, rule in wanted.get(run.index, {}).items()}
        if wanted_rows:
            for position, src, tgt in _read_rows(part, runs[0].first, sorted(wanted_rows), swapped=swapped):
                examples[wanted_rows[position]].append(asdict(DroppedPair(position + 1, src, tgt)))
    return examples


def _read_rows(part: Part, first: int, rows: Sequence[int], *, swapped: bool) -> Iterator[tuple[int, str, str]]:
    """Yield (position, source, target) of some pairs of a part whose first pair has the position ``first``."""
    remaining = list(reversed(rows))
    for block in read_part(part, lambda _: None, swapped=swapped):
        while remaining and remaining[-1] < first + len(block):
            row = remaining.pop()
            yield row, block.src[row - first], block.tgt[row - first]
        if not remaining:
            return
        first += len(block)
