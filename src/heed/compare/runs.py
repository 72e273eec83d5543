"""What a comparison needs of finished runs, read from their folders: any copy of them will do."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.evaluation.buckets import WORD_COUNTS, read_counts
from heed.runs.results import read_results


@dataclass(frozen=True)
class Run:
    """One trained model and its translations of the test set."""

    path: Path
    results: Mapping[str, Any]
    """Its ``results.json``."""
    translations: list[str]

    @property
    def has_model(self) -> bool:
        """Whether the model was copied along with the run."""
        return (self.path / "model" / "model.safetensors").is_file()


@dataclass(frozen=True)
class Side:
    """A system to compare: one run, or several with different seeds."""

    name: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class TestSet:
    """What all runs translated."""

    split: str
    sources: list[str]
    references: list[str]
    tags: list[str] | None
    """What each sentence shows, where that is known."""
    word_counts: Mapping[str, int] | None
    """How often training had the words of the sources; None where a run does not tell."""
    counted: str
    """In how many training pairs they were counted, in words."""


def read_sides(groups: Sequence[tuple[str, Sequence[Path]]], split: str | None) -> tuple[TestSet, list[Side]]:
    """The sides, given by name, and their common test set: ``split``, else the first one they have in common.

    Raises:
        HeedError: where a folder is no finished run, or the runs did not translate the same sentences.
    """
    paths = [path for _, group in groups for path in group]
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise HeedError(f"{path} is named {times} times: a run cannot be compared with itself.")
    results = {path: _results(path) for path in paths}
    split = split or _common_split(results)
    test_set = _test_set(paths[0], split)
    sides = [Side(name, [_run(path, results[path], test_set, paths[0]) for path in group]) for name, group in groups]
    return test_set, sides


def side_names(paths: Sequence[Path]) -> list[str]:
    """A short name for each run: its own where that tells them apart, with its folder's where not."""
    names = [str(_results(path)["name"]) for path in paths]
    if len({*names}) < len(names):
        names = [f"{name}/{path.resolve().name}" for name, path in zip(names, paths, strict=True)]
    return names if len({*names}) == len(names) else [str(path) for path in paths]


def _results(path: Path) -> dict[str, Any]:
    file = path / "results.json"
    if not path.is_dir():
        raise HeedError(f"There is no folder {path}. Name runs: the folders runs/NAME/TIME, or copies of them.")
    if not file.is_file():
        raise HeedError(f"{path} is not a finished run: it has no results.json, which a run writes when it ends.")
    results = read_results(file)
    if missing := {"name", "params", "steps", "valid", "tests"} - results.keys():
        raise HeedError(f"{file} is not what a run writes: it does not say {', '.join(sorted(missing))}.")
    return results


def _common_split(results: Mapping[Path, Mapping[str, Any]]) -> str:
    shared = [
        split for split in next(iter(results.values()))["tests"] if all(split in r["tests"] for r in results.values())
    ]
    if not shared:
        raise HeedError(
            "The runs have no test set in common: name a split that all of them translated with --split, "
            "--split valid for the validation set."
        )
    return shared[0]


def _test_set(path: Path, split: str) -> TestSet:
    sources, references = _lines(path, split, "src"), _lines(path, split, "ref")
    if not sources:
        raise HeedError(f"{path} has an empty {split} set: there is nothing to compare.")
    _see_that_equally_many(path, split, "ref", references, sources)
    tags, counts, counted = None, None, ""
    if (path / "translations" / f"{split}.meta.jsonl").is_file():
        metas = _lines(path, split, "meta.jsonl")
        _see_that_equally_many(path, split, "meta.jsonl", metas, sources)
        try:
            tags = [str(json.loads(meta).get("tag")) for meta in metas]
        except (ValueError, AttributeError, RecursionError) as error:
            raise HeedError(f"{path / 'translations' / split}.meta.jsonl is damaged: copy it again.") from error
    if (path / "translations" / WORD_COUNTS).is_file():
        counts, pairs, of = read_counts(path / "translations" / WORD_COUNTS)
        counted = f"{of:,} training pairs" if pairs == of else f"a sample of {pairs:,} of {of:,} training pairs"
    return TestSet(split, sources, references, tags, counts, counted)


def _run(path: Path, results: Mapping[str, Any], test_set: TestSet, first: Path) -> Run:
    split = test_set.split
    for suffix, expected in (("src", test_set.sources), ("ref", test_set.references)):
        lines = _lines(path, split, suffix)
        _see_that_equally_many(path, split, suffix, lines, expected)
        if lines != expected:
            number = next(i for i, pair in enumerate(zip(lines, expected, strict=True), start=1) if pair[0] != pair[1])
            raise HeedError(
                f"{path} and {first} did not translate the same {split} set: line {number} of their {split}.{suffix} "
                "differs. Only translations of the same sentences can be compared."
            )
    translations = _lines(path, split, "hyp")
    _see_that_equally_many(path, split, "hyp", translations, test_set.sources)
    return Run(path, results, translations)


def _lines(path: Path, split: str, suffix: str) -> list[str]:
    file = path / "translations" / f"{split}.{suffix}"
    if not file.is_file():
        there = ", ".join(sorted(found.stem for found in file.parent.glob("*.hyp")))
        raise HeedError(
            f"{path} cannot be compared on {split}: {file.relative_to(path)} is missing. "
            + (f"It has translations of {there}: choose with --split." if there else "It holds no translations.")
        )
    try:
        # "\n" alone ends a line, here as in the run that wrote it.
        return file.read_bytes().decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise HeedError(f"{file} is not UTF-8: copy it again.") from error


def _see_that_equally_many(path: Path, split: str, suffix: str, lines: Sequence[str], expected: Sequence[str]) -> None:
    if len(lines) != len(expected):
        raise HeedError(
            f"{path / 'translations' / split}.{suffix} has {len(lines):,} lines where {len(expected):,} are expected, "
            "one for each source sentence."
        )
