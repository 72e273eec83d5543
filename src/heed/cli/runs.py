"""``heed runs``: a table of runs."""

import argparse
import json

from heed.cli.lines import write_lines


def run(args: argparse.Namespace) -> None:
    from heed.runs.table import read_runs, runs_table, seed_table, sort_runs

    rows = sort_runs(read_runs(args.folder), args.sort)
    if args.json:
        write_lines([json.dumps(rows, indent=2, ensure_ascii=False)])
    else:
        seeds = seed_table(rows, args.folder, args.table)
        write_lines([runs_table(rows, args.table), *(["", seeds] if seeds else [])])
