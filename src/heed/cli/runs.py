"""``heed runs``: what was trained, and what it came to."""

import argparse
import json
from pathlib import Path

from heed.cli.common import Command, write_lines


def _runs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("runs"), metavar="DIR", help="runs, a sweep, a run (%(default)s)"
    )
    parser.add_argument("--sort", default="run", metavar="KEY", help="run, steps, minutes, valid_bleu, test_bleu, …")
    parser.add_argument("--json", action="store_true", help="a list of objects with every figure in full")


def _runs(args: argparse.Namespace) -> None:
    from heed.runs.table import read_runs, sort_runs, table

    rows = sort_runs(read_runs(args.folder), args.sort)
    write_lines([json.dumps(rows, indent=2, ensure_ascii=False) if args.json else table(rows)])


COMMAND = Command("runs", "List runs with their key figures.", _runs_options, _runs)
