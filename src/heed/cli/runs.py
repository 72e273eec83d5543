"""``heed runs``: a table of runs."""

import argparse
import json
from pathlib import Path

from heed.cli.arguments import Command
from heed.cli.lines import write_lines


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="folder of runs, sweep, or single run (default: %(default)s)",
    )
    parser.add_argument(
        "--sort",
        default="run",
        metavar="KEY",
        help="sort by run, steps, minutes, valid_bleu, test_bleu or another key of --json (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects with unrounded values")


def _run(args: argparse.Namespace) -> None:
    from heed.runs.table import read_runs, runs_table, seed_table, sort_runs

    rows = sort_runs(read_runs(args.folder), args.sort)
    if args.json:
        write_lines([json.dumps(rows, indent=2, ensure_ascii=False)])
    else:
        write_lines([runs_table(rows), *(["", seeds] if (seeds := seed_table(rows)) else [])])


COMMAND = Command("runs", "List runs with their settings and scores.", _add_options, _run)
