"""``heed-exercise``: write the blocks of heed, and check what you wrote."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from heed.cli import execute
from heed.cli.arguments import CommandParser
from heed.cli.lines import write_lines
from heed.errors import HeedError
from heed.runs.table import format_table
from heed_exercises.check import Result, check_file, dir_option, start
from heed_exercises.exercise import EXERCISES, find


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0; 1 if not all exercises pass; 2 after a wrong argument or file."""
    return execute("heed-exercise", argv, partial(_run, build_parser()))


def build_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="heed-exercise",
        description="Write attention, RNNs, training and search yourself, and check what you wrote.",
        epilog="list: the exercises and your state. start: write files with a gap into your folder. check: check your "
        "files, with exit status 1 unless all pass. solution: print a solution.",
    )
    parser.add_argument("action", choices=["list", "start", "check", "solution"])
    parser.add_argument("name", nargs="?", help="exercise (default: all; of check: all that are in your folder)")
    parser.add_argument("--dir", type=Path, default=Path("exercises"), help="your folder (default: %(default)s)")
    parser.add_argument("--hint", action="store_true", help="print a hint for what does not pass")
    parser.add_argument("--seed", type=int, help="check with the inputs of an earlier check again (default: new ones)")
    parser.add_argument("--json", action="store_true", help="print the results of list or check as a JSON list")
    return parser


def _run(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    args = parser.parse_args(words)
    chosen = [find(args.name)] if args.name else list(EXERCISES.values())
    folder: Path = args.dir
    if args.action == "solution":
        write_lines(each.read("solution.py").rstrip() for each in chosen)
    elif args.action == "start":
        missing = [each for each in chosen if args.name or not (folder / f"{each.name}.py").exists()]
        option = dir_option(folder)
        for path in (start(each.name, folder) for each in missing):
            write_lines([f"{path}: write the body, then run `heed-exercise check {path.stem}{option}`."])
        if kept := len(chosen) - len(missing):
            write_lines([f"{kept} of {len(chosen)} files were in {folder} already and are unchanged."])
    else:
        results = [check_file(each.name, folder, seed=args.seed) for each in chosen]
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


def _report(results: Sequence[Result], args: argparse.Namespace) -> Iterator[str]:
    """Yield a table of exercises, or what was checked in a single one; then why files fail, and hints."""
    table = args.action == "list" or not args.name
    if table:
        lines = [(result.exercise, result.state, *find(result.exercise).heading()) for result in results]
        yield format_table([("exercise", "state", "what it teaches", "source"), *lines], "<<<<")
    for result in results:
        if args.action == "check" and (result.state == "failed" or not table):
            yield f"{result.exercise}: {result.state}. {result.message}"
        if args.hint and result.state != "passed":
            yield f"Hint: {find(result.exercise).read('hint.txt').strip()}"


if __name__ == "__main__":
    raise SystemExit(main())
