"""Reading finished runs, or copies of them: results, translations and the common test set."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from heed.errors import HeedError
from heed.evaluation.buckets import WORD_COUNTS, read_counts
from heed.evaluation.scores import SystemOutput
from heed.inference.loading import load
from heed.inference.translator import Translator
from heed.languages import Direction
from heed.runs.config import GRID_FILE, find_config, read_varied_overrides
from heed.runs.results import RESULTS, direction_of, read_results, read_split

GRID_FILES = (GRID_FILE, "sweep.txt", "sweep.svg", "sweep.pdf")
"""Files between the jobs in the folder of a grid."""


@dataclass(frozen=True)
class Run:
    """A trained model and its translations of the test set."""

    path: Path
    results: Mapping[str, Any]  # the contents of ``results.json``
    translations: list[str]
    config: Mapping[str, Any] | None  # the options in ``config.yaml``; None if the file is missing or cannot be read

    @property
    def has_model(self) -> bool:
        """Whether the run folder contains the model: copies may lack it."""
        return (self.path / "model" / "model.safetensors").is_file()

    def output(self, test_set: "TestSet") -> SystemOutput:
        """Return what metrics need."""
        return SystemOutput(
            hypotheses=self.translations,
            references=[test_set.references],
            sources=test_set.sources,
            tgt_lang=test_set.direction.tgt_lang,
            likelihood=cache(lambda: self._translator(test_set).likelihood(test_set.sources, [test_set.references])),
            maximized=self.results.get("search", {}).get("utility"),
        )

    def _translator(self, test_set: "TestSet") -> Translator:
        return load(self.path, direction=self.direction(test_set.split), max_tokens=None)

    def direction(self, split: str) -> str | None:
        """Return which of the model's directions a test set has; None if the model has one direction."""
        return str(direction_of(self.results, split)) if "directions" in self.results else None


@dataclass(frozen=True)
class Side:
    """A side of the comparison: a system, trained once or with several seeds. Pages and messages call it a system."""

    name: str
    runs: Sequence[Run]

    def mean(self, key: str) -> float:
        """Return the mean of a number in ``results.json`` over the runs."""
        return float(np.mean([run.results[key] for run in self.runs]))


@dataclass(frozen=True)
class TestSet:
    """The sentences that all runs translated."""

    split: str
    sources: list[str]
    references: list[str]
    tags: list[str] | None  # the phenomenon of each sentence, if the corpus is annotated
    word_counts: Mapping[str, int] | None
    """Training counts of the source words; None if the first run does not record them."""
    direction: Direction


def read_sides(groups: Sequence[tuple[str, Sequence[Path]]], split: str | None) -> tuple[TestSet, list[Side]]:
    """Read the sides and their common test set.

    Args:
        groups: The name and the run folders of each side.
        split: The test set; None for the first one that all runs translated.

    Raises:
        HeedError: A folder is not a finished run, or the runs did not translate the same sentences.
    """
    paths = [path for _, group in groups for path in group]
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise HeedError(f"{path} is named {times} times: name each run once.")
    results = {path: _read_results(path) for path in paths}
    split = split or _common_split(results)
    test_set = _read_test_set(paths[0], split, direction_of(results[paths[0]], split))
    runs = {path: _read_run(path, results[path], test_set, paths[0]) for path in paths}
    return test_set, [Side(name, [runs[path] for path in group]) for name, group in groups]


def read_other_sides(
    groups: Sequence[tuple[str, Sequence[Path]]], sides: Sequence[Side], split: str
) -> tuple[list[tuple[TestSet, list[Side]]], list[str]]:
    """Read the test sets besides ``split`` that all runs translated.

    Returns:
        The test sets with the sides, and a warning for each that cannot be compared.
    """
    tests = [run.results["tests"] for side in sides for run in side.runs]
    found, warnings = [], []
    for other in tests[0]:
        if other != split and all(other in own for own in tests):
            try:
                found.append(read_sides(groups, other))
            except HeedError as error:
                warnings.append(f"The verdict does not cover {other}: {error}")
    return found, warnings


def group_runs(paths: Sequence[Path]) -> tuple[list[tuple[str, list[Path]]], list[str]]:
    """Return the systems to compare, each a name and its runs, and a warning for each job that is left out.

    The folder of a grid stands for its finished jobs; those that differ in the seed alone are runs of one system.
    """
    paths = [path for path in paths if path.name not in GRID_FILES]  # from a pattern such as runs/NAME/TIME/*
    if not any((path / GRID_FILE).is_file() for path in paths):
        return [(name, [path]) for name, path in zip(side_names(paths), paths, strict=True)], []
    groups: dict[tuple[Path, str], list[Path]] = {}
    left_out = []
    for folder in paths:
        is_grid = (folder / GRID_FILE).is_file()
        for run in sorted(folder.glob("*/")) if is_grid else [folder]:
            if is_grid and not (run / RESULTS).is_file():
                left_out.append(f"{run} is left out, because it is not finished.")
                continue
            varied = [word for word in read_varied_overrides(run) or [run.name] if not word.startswith("seed=")]
            groups.setdefault((folder, " ".join(varied) or folder.name), []).append(run)
    names = unique_names(_short_names([name for _, name in groups]), [folder for folder, _ in groups])
    return list(zip(names, groups.values(), strict=True)), left_out


def _short_names(names: Sequence[str]) -> list[str]:
    """Leave out the option if all names are its choices: additive and dot, not model/attention=additive and …=dot."""
    parts = [name.rpartition("=") for name in names]
    is_one = len({option for option, *_ in parts}) == 1 and parts[0][0] and not {*"= "} & {*parts[0][0]}
    return [value for *_, value in parts] if is_one and all(value[:1].isalpha() for *_, value in parts) else [*names]


def side_names(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for each run: the name it was given, with the name of its folder if needed."""
    return unique_names([str(_read_results(path)["name"]) for path in paths], paths)


def unique_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Make the names of folders unique: append the folder's name, or else use the paths, or else number the names."""
    with_folders = [f"{name}/{path.resolve().name}" for name, path in zip(names, paths, strict=True)]
    candidates = (list(names), with_folders, [*map(str, paths)])
    numbered = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return next((each for each in candidates if len({*each}) == len(each)), numbered)


def _read_results(path: Path) -> dict[str, Any]:
    file = path / "results.json"
    if not path.is_dir():
        raise HeedError(f"There is no folder {path}: name run folders (runs/NAME/TIME) or copies of them.")
    if not file.is_file():
        if runs := [*path.glob(f"*/{GRID_FILE}")] or [*path.glob(f"*/{RESULTS}"), *path.glob(f"*/*/{RESULTS}")]:
            raise HeedError(f"{path} is not a run or grid but holds some: choose one, such as {min(runs).parent}.")
        raise HeedError(f"{path} is not a finished run: it has no results.json, which a run writes at its end.")
    results = read_results(file)
    if missing := {"name", "params", "steps", "tokens", "valid", "tests"} - results.keys():
        raise HeedError(f"{file} lacks {', '.join(sorted(missing))}: copy it again from its run.")
    return results


def _common_split(results: Mapping[Path, Mapping[str, Any]]) -> str:
    first, *others = (of_run["tests"] for of_run in results.values())
    shared = [split for split in first if all(split in tests for tests in others)]
    if not shared:
        raise HeedError(
            "The runs have no test set in common: choose a split that all of them translated with --split, for "
            "example --split valid for the validation set."
        )
    return shared[0]


def _read_test_set(path: Path, split: str, direction: Direction) -> TestSet:
    sources = _read_lines(path, split, "src")
    if not sources:
        raise HeedError(f"{path} has an empty {split} set: choose another one with --split.")
    references = _read_lines(path, split, "ref", count=len(sources))
    tags, word_counts = None, None
    if (path / "translations" / f"{split}.meta.jsonl").is_file():
        metas = _read_lines(path, split, "meta.jsonl", count=len(sources))
        try:
            tags = [str(json.loads(meta).get("tag")) for meta in metas]
        except (ValueError, AttributeError, RecursionError) as error:
            raise HeedError(f"{path / 'translations' / split}.meta.jsonl is damaged: copy it again.") from error
    if (path / "translations" / WORD_COUNTS).is_file():
        word_counts = read_counts(path / "translations" / WORD_COUNTS)
    return TestSet(split, sources, references, tags, word_counts, direction)


def _read_run(path: Path, results: Mapping[str, Any], test_set: TestSet, first: Path) -> Run:
    split, count = test_set.split, len(test_set.sources)
    for suffix, expected in (("src", test_set.sources), ("ref", test_set.references)):
        lines = _read_lines(path, split, suffix)
        if lines != expected:
            different = (i for i, (a, b) in enumerate(zip(lines, expected, strict=False), start=1) if a != b)
            number = next(different, min(len(lines), count) + 1)
            raise HeedError(
                f"{path} and {first} did not translate the same {split} set: line {number:,} of their {split}.{suffix} "
                "differs. Only translations of the same sentences can be compared."
            )
    return Run(path, results, _read_lines(path, split, "hyp", count=count), find_config(path))


def _read_lines(path: Path, split: str, suffix: str, *, count: int | None = None) -> list[str]:
    """Return the lines of a file in ``translations/``, ``count`` of them."""
    file = path / "translations" / f"{split}.{suffix}"
    if not file.is_file():
        there = ", ".join(sorted(found.stem for found in file.parent.glob("*.hyp")))
        raise HeedError(
            f"{path} cannot be compared on {split}: {file.relative_to(path)} is missing. "
            + (f"It has translations of {there}: choose with --split." if there else "It has no translations.")
        )
    try:
        lines = read_split(path, split, suffix)
    except UnicodeDecodeError as error:
        raise HeedError(f"{file} is not UTF-8: copy it again.") from error
    if count not in (None, len(lines)):
        raise HeedError(
            f"{file} has {len(lines):,} lines where {count:,} are expected, one for each source sentence: copy the run "
            "again."
        )
    return lines
