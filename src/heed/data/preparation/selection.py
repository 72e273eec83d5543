"""The selection of training pairs: the scan of all parts, the removal of duplicates, and the sample of ``max_train``.

A sample consists of the pairs with the smallest digests: it does not depend on the order of the text, which may be
sorted by length, and smaller samples are subsets of larger ones.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.data.cleaning import NO_RULE, RULES, Cleaning, CleaningReport, DroppedPair, Violations
from heed.data.digests import Digests, mixed
from heed.data.preparation.arrays import VERIFIED_BYTES, files_digest, map_array, write_array
from heed.data.preparation.examples import find_examples
from heed.data.preparation.ranges import Limit, ScannedText, select_by_digest
from heed.data.preparation.scan import Run, ScanTask, number_runs, read_part, run_path, scan_part
from heed.data.preparation.workers import Workers
from heed.data.text import Advance, Block, Part
from heed.errors import HeedError
from heed.files import replacing


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
        manifest = json.loads((folder / "selection.json").read_text(encoding="utf-8"))
        self.fingerprint: str = manifest["fingerprint"]
        """Digest of the selected pairs, whatever their order in the text."""
        self.clean_chars: int = manifest["clean_chars"]
        """Characters of both sides of the clean pairs, with duplicates."""
        self.limit: Limit | None = tuple(manifest["limit"]) if manifest["limit"] else None
        self.keep_duplicates: bool = manifest["keep_duplicates"]
        self.runs = number_runs(manifest["runs"])
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
) -> None:
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
    runs = number_runs([part.runs for part in scanned])
    if not runs:
        raise HeedError(f"{', '.join(part.name for part in parts)}: no sentences.")
    violations = np.sum([part.violations for part in scanned], axis=0)
    selected = select_by_digest(
        ScannedText(folder, runs),
        [ScannedText(other, Selection(other).runs) for other in heavier],
        workers,
        clean=int(violations[NO_RULE]),
        keep_duplicates=not settings.cleaning.drop_duplicates,
        at_most=settings.at_most,
    )
    dropped = dict(zip(RULES, violations.tolist(), strict=False))
    manifest = {
        "fingerprint": selected.fingerprint,
        # For people; the names of the parts need not be UTF-8.
        "inputs": {os.fsencode(part.name).decode(errors="replace"): part.size for part in parts},
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
    selection = Selection(folder)
    # What a sample leaves out is no fault of the corpus: no examples of it.
    faulty = {rule: count for rule, count in selection.report.dropped.items() if rule != "over max_train"}
    examples = find_examples(runs, lambda run: selection.decide(run)[0], faulty, parts, workers, swapped=swapped)
    _write_manifest(folder, manifest | {"examples": examples})


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


def _array_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npy"))


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    with replacing(folder / "selection.json", durable=True) as file:
        file.write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
