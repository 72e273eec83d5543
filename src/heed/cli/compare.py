"""``heed compare``: significance tests and examples for trained systems, as an HTML page."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.arguments import Command
from heed.cli.lines import write_lines
from heed.errors import HeedError
from heed.files import replacing

if TYPE_CHECKING:
    from heed.compare.challenge import Contrast
    from heed.compare.comparison import Comparison
    from heed.compare.models import Evidence
    from heed.compare.runs import Side

CONTRASTS_PER_TAG = 200
"""Sentences per phenomenon from the built-in challenge set: enough to distinguish 60 % accuracy from chance."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of finished runs, or copies of them")
    parser.add_argument(
        "--group",
        nargs="+",
        action="extend",
        metavar="NAME=RUN,RUN",
        help="instead of RUN: systems trained with several seeds, for example rnn=runs/a,runs/b transformer=runs/c",
    )
    parser.add_argument("--split", metavar="NAME", help="test set (default: the first that all runs have translated)")
    parser.add_argument(
        "--challenge",
        metavar="FILE",
        help="challenge set in JSONL with src, good, bad and tag; none for no challenge set (default: the built-in one "
        "for models of data=synthetic)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("comparison"), metavar="DIR", help="output folder (default: %(default)s)"
    )


def _run(args: argparse.Namespace) -> None:
    groups = _parse_groups(args)
    from heed.compare.comparison import compare
    from heed.compare.runs import read_sides
    from heed.report.comparison import render

    test_set, sides = read_sides(groups, args.split)
    challenge, contrasts = _read_contrasts(args.challenge, sides)
    comparison = compare(test_set, sides)
    evidence, warnings = _collect_evidence(comparison, sides, challenge, contrasts)
    comparison = replace(comparison, warnings=[*comparison.warnings, *warnings])
    plain = {**comparison.to_plain(), "challenge": _plain_accuracy(sides, evidence)}
    pages = {
        "compare.json": json.dumps(plain, indent=2, ensure_ascii=False) + "\n",
        "index.html": render(comparison, evidence),
    }
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            with replacing(args.out / name) as file:
                file.write_text(page, encoding="utf-8", errors="replace")  # a path may not be valid Unicode
    except OSError as error:
        raise HeedError(f"--out {args.out} cannot be written: {error.strerror}.") from error
    write_lines([*comparison.verdict, *(f"  {warning}" for warning in comparison.warnings)])
    write_lines([f"Page: {args.out / 'index.html'}"])


def _parse_groups(args: argparse.Namespace) -> list[tuple[str, Sequence[Path]]]:
    """Return the systems to compare, each a name and its runs, from RUN arguments or ``--group``."""
    if args.group and args.runs:
        raise HeedError("Give runs or --group, not both.")
    if not args.group:
        if len(args.runs) < 2:
            raise HeedError("Give two or more runs to compare, or groups of runs with --group.")
        from heed.compare.runs import side_names

        return [(name, [path]) for name, path in zip(side_names(args.runs), args.runs, strict=True)]
    groups: dict[str, Sequence[Path]] = {}
    for group in args.group:
        name, _, paths = group.partition("=")
        if not name or not all(paths.split(",")):
            raise HeedError(f"--group {group} is not valid: write NAME=RUN or NAME=RUN,RUN, without spaces.")
        if name in groups:
            raise HeedError(f"--group names {name} twice: give all its runs at once, {name}=RUN,RUN.")
        groups[name] = [Path(path) for path in paths.split(",")]
    if len(groups) < 2:
        raise HeedError("--group needs two or more groups to compare: NAME=RUN,RUN NAME=RUN,RUN.")
    return list(groups.items())


def _read_contrasts(challenge: str | None, sides: "Sequence[Side]") -> "tuple[str, Sequence[Contrast]]":
    """Return the name and the items of the challenge set, which may be empty.

    Without ``--challenge``, it is the built-in one if all runs were trained on the built-in corpus.
    """
    from heed.compare.challenge import read_challenge

    if challenge == "none":
        return "", []
    if challenge:
        return challenge, read_challenge(Path(challenge))
    runs = [run for side in sides for run in side.runs]
    corpora = [[run.results.get(key) for key in ("data", "src_lang", "tgt_lang")] for run in runs]
    if any(corpus != ["synthetic", "en", "de"] for corpus in corpora) or not any(run.has_model for run in runs):
        return "", []
    from heed.data import synthetic

    return "the built-in challenge set", synthetic.challenge(seed=1, per_tag=CONTRASTS_PER_TAG)


def _collect_evidence(
    comparison: "Comparison", sides: "Sequence[Side]", challenge: str, contrasts: "Sequence[Contrast]"
) -> "tuple[Evidence, list[str]]":
    """Run every model that can be loaded on the challenge set, and the first of each side on the examples.

    Returns:
        The evidence, and a warning for each model that could not be used.
    """
    from heed.compare.models import Evidence, evaluate_model

    accuracy, maps, extractions, warnings = [], [], [], []
    for number, side in enumerate(sides):
        answers = []
        for run in side.runs:
            first = run is side.runs[0]
            examples = [(each.source, each.translations[number]) for each in comparison.examples] if first else []
            try:
                if run.has_model:
                    answers.append(evaluate_model(run.path, contrasts, examples))
            except HeedError as error:
                # For example a model of another version of heed. Its translations can still be compared.
                warnings.append(f"The model of {run.path} was not used: {error}")
        with_maps = next((answer for answer in answers if answer.extraction), None)
        accuracy.append([answer.accuracy for answer in answers if answer.accuracy])
        maps.append(with_maps.maps if with_maps else None)
        extractions.append(with_maps.extraction if with_maps else "")
    return Evidence(challenge, accuracy, maps, extractions), warnings


def _plain_accuracy(sides: "Sequence[Side]", evidence: "Evidence") -> dict[str, Any]:
    """Return the correct answers by side, run and tag, for ``compare.json``."""
    return {
        side.name: [{tag: {"right": found.right, "total": found.total} for tag, found in run.items()} for run in runs]
        for side, runs in zip(sides, evidence.accuracy, strict=True)
    }


COMMAND = Command("compare", "Compare the translations of runs, with significance tests.", _add_options, _run)
