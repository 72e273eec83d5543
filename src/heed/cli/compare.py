"""``heed compare``: a verdict between trained systems, with its evidence, as a page."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.common import Command, write_lines
from heed.errors import HeedError
from heed.files import replacing

if TYPE_CHECKING:
    from heed.compare.challenge import Contrast
    from heed.compare.comparison import Comparison
    from heed.compare.models import Evidence
    from heed.compare.runs import Side

CONTRASTS_PER_TAG = 200
"""Of the built-in challenge set: two hundred tell 60 % from chance, and a small model scores them in seconds."""


def _compare_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of finished runs, or copies of them")
    parser.add_argument(
        "--group",
        nargs="+",
        action="extend",
        metavar="NAME=RUN,RUN",
        help="instead: systems, each trained with several seeds (rnn=runs/a,runs/b transformer=runs/c,runs/d)",
    )
    parser.add_argument("--split", metavar="NAME", help="what they translated (the first test set they have in common)")
    parser.add_argument(
        "--challenge",
        metavar="FILE",
        help='contrasts in JSONL, with src, good, bad and tag; "none" for none (the built-in ones of data=synthetic)',
    )
    parser.add_argument(
        "--out", type=Path, default=Path("comparison"), metavar="DIR", help="where the page goes (%(default)s)"
    )


def _compare(args: argparse.Namespace) -> None:
    groups = _groups(args)
    from heed.compare.comparison import compare
    from heed.compare.runs import read_sides
    from heed.report.comparison import render

    test_set, sides = read_sides(groups, args.split)
    name, contrasts = _contrasts(args.challenge, sides)
    comparison = compare(test_set, sides)
    evidence, silent = _evidence(comparison, sides, name, contrasts)
    comparison = replace(comparison, warnings=[*comparison.warnings, *silent])
    plain = {**comparison.to_plain(), "challenge": _plain_accuracy(sides, evidence)}
    pages = {
        "compare.json": json.dumps(plain, indent=2, ensure_ascii=False) + "\n",
        "index.html": render(comparison, evidence),
    }
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            with replacing(args.out / name) as file:
                file.write_text(page, encoding="utf-8", errors="replace")  # paths need not be Unicode
    except OSError as error:
        raise HeedError(f"--out {args.out} cannot be written: {error.strerror}.") from error
    write_lines([*comparison.verdict, *(f"  {warning}" for warning in comparison.warnings)])
    write_lines([f"Page: {args.out / 'index.html'}"])


def _groups(args: argparse.Namespace) -> list[tuple[str, Sequence[Path]]]:
    """The sides by name, from either way to name them."""
    if args.group and args.runs:
        raise HeedError("Name runs or --group, not both.")
    if not args.group:
        if len(args.runs) < 2:
            raise HeedError("Name two or more runs to compare, or groups of them with --group.")
        from heed.compare.runs import side_names

        return [(name, [path]) for name, path in zip(side_names(args.runs), args.runs, strict=True)]
    groups: dict[str, Sequence[Path]] = {}
    for group in args.group:
        name, _, paths = group.partition("=")
        if not name or not all(paths.split(",")):
            raise HeedError(f"--group {group} is not understood: write NAME=RUN or NAME=RUN,RUN, without spaces.")
        if name in groups:
            raise HeedError(f"--group names {name} twice: give all its runs at once, {name}=RUN,RUN.")
        groups[name] = [Path(path) for path in paths.split(",")]
    if len(groups) < 2:
        raise HeedError("--group needs two or more groups to compare: NAME=RUN,RUN NAME=RUN,RUN.")
    return list(groups.items())


def _contrasts(challenge: str | None, sides: "Sequence[Side]") -> "tuple[str, Sequence[Contrast]]":
    """What to ask the models: the given file; else, where all learned from it, the built-in corpus's own."""
    from heed.compare.challenge import read_challenge

    if challenge == "none":
        return "", []
    if challenge:
        return challenge, read_challenge(Path(challenge))
    runs = [run for side in sides for run in side.runs]
    learned = [[run.results.get(key) for key in ("data", "src_lang", "tgt_lang")] for run in runs]
    if any(each != ["synthetic", "en", "de"] for each in learned) or not any(run.has_model for run in runs):
        return "", []
    from heed.data import synthetic

    return "the built-in challenge set", synthetic.challenge(seed=1, per_tag=CONTRASTS_PER_TAG)


def _evidence(
    comparison: "Comparison", sides: "Sequence[Side]", challenge: str, contrasts: "Sequence[Contrast]"
) -> "tuple[Evidence, list[str]]":
    """Ask every model that is there; the first run of a side shows its maps. And who could not be asked, and why."""
    from heed.compare.models import Evidence, evaluate_model

    accuracy, maps, extractions, silent = [], [], [], []
    for number, side in enumerate(sides):
        answers = []
        for run in side.runs:
            first = run is side.runs[0]
            examples = [(each.source, each.translations[number]) for each in comparison.examples] if first else []
            try:
                if run.has_model:
                    answers.append(evaluate_model(run.path, contrasts, examples))
            except HeedError as error:
                # Of another version of heed, perhaps: the translations speak all the same.
                silent.append(f"The model of {run.path} was not asked: {error}")
        drawn = next((answer for answer in answers if answer.extraction), None)
        accuracy.append([answer.accuracy for answer in answers if answer.accuracy])
        maps.append(drawn.maps if drawn else None)
        extractions.append(drawn.extraction if drawn else "")
    return Evidence(challenge, accuracy, maps, extractions), silent


def _plain_accuracy(sides: "Sequence[Side]", evidence: "Evidence") -> dict[str, Any]:
    """Right answers by side, run and tag, for ``compare.json``."""
    return {
        side.name: [{tag: {"right": found.right, "total": found.total} for tag, found in run.items()} for run in runs]
        for side, runs in zip(sides, evidence.accuracy, strict=True)
    }


COMMAND = Command(
    "compare", "Say which of some runs is better, how surely, and on which sentences.", _compare_options, _compare
)
