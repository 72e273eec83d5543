"""``heed runs`` and ``heed report``: runs as a table and as pages."""

import argparse
import json

from heed.cli.lines import path_text, write_lines


def run(args: argparse.Namespace) -> None:
    from heed.runs.table import read_runs, runs_table, seed_table, sort_runs

    rows = sort_runs(read_runs(args.folder), args.sort)
    if args.json:
        write_lines([json.dumps(rows, indent=2, ensure_ascii=False)])
    else:
        seeds = seed_table(rows, args.folder, args.table)
        write_lines([runs_table(rows, args.table), *(["", seeds] if seeds else [])])


def report(args: argparse.Namespace) -> None:
    from heed.report.run_page import write_report

    for folder in args.runs:
        write_lines([f"Report: {path_text(write_report(folder))}"])
