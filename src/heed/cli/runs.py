"""``heed runs``: a table of runs."""

import argparse
import json
from pathlib import Path

from heed.cli.arguments import add, add_flag, add_table_style
from heed.cli.lines import write_lines

SUMMARY = "List runs with their settings and scores."


def add_options(parser: argparse.ArgumentParser) -> None:
    add(parser, "folder", "DIR", "folder of runs, sweep, or single run", nargs="?", default=Path("runs"))
    text = (
        "sort by run, settings, params, steps, minutes, state, valid_bleu, valid_chrf, valid_loss, test_bleu, "
        "test_chrf or test_loss"
    )
    add(parser, "--sort", "KEY", text, default="run")
    add_table_style(parser)
    add_flag(parser, "--json", "print a JSON list of objects with unrounded values")


def run(args: argparse.Namespace) -> None:
    from heed.runs.table import read_runs, runs_table, seed_table, sort_runs

    rows = sort_runs(read_runs(args.folder), args.sort)
    if args.json:
        write_lines([json.dumps(rows, indent=2, ensure_ascii=False)])
    else:
        seeds = seed_table(rows, args.folder, args.table)
        write_lines([runs_table(rows, args.table), *(["", seeds] if seeds else [])])
