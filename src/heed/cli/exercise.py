"""``heed exercise``: write the blocks of heed, and check what you wrote."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.lines import write_lines
from heed.errors import HeedError

if TYPE_CHECKING:
    from heed.exercises import Result


def run(args: argparse.Namespace) -> None:
    from heed import exercises
    from heed.exercises.check import dir_option

    chosen = [exercises.find(args.name)] if args.name else list(exercises.EXERCISES.values())
    folder: Path = args.dir
    if args.action == "solution":
        write_lines(each.read("solution.py").rstrip() for each in chosen)
    elif args.action == "start":
        missing = [each for each in chosen if args.name or not (folder / f"{each.name}.py").exists()]
        option = dir_option(folder)
        for path in (exercises.start(each.name, folder) for each in missing):
            write_lines([f"{path}: write the body, then run `heed exercise check {path.stem}{option}`."])
        if kept := len(chosen) - len(missing):
            write_lines([f"{kept} of {len(chosen)} files were in {folder} already and are unchanged."])
    else:
        results = [exercises.check_file(each.name, folder, seed=args.seed) for each in chosen]
        if args.action == "check":
            message = results[0].message
            results = [result for result in results if result.state != "not started"]
            if not results:
                raise HeedError(message)
        if args.json:
            write_lines([json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False)])
        else:
            write_lines(_report(results, args))
        if args.action == "check" and any(result.state != "passed" for result in results):
            raise SystemExit(1)


def _report(results: Sequence["Result"], args: argparse.Namespace) -> Iterator[str]:
    """Yield a table of exercises, or what was checked in a single one; then why files fail, and hints."""
    from heed.exercises import find
    from heed.runs.table import format_table

    table = args.action == "list" or not args.name
    if table:
        lines = [(result.exercise, result.state, *find(result.exercise).heading()) for result in results]
        yield format_table([("exercise", "state", "what it teaches", "source"), *lines], "<<<<")
    for result in results:
        if args.action == "check" and (result.state == "failed" or not table):
            yield f"{result.exercise}: {result.state}. {result.message}"
        if args.hint and result.state != "passed":
            yield f"Hint: {find(result.exercise).read('hint.txt').strip()}"
