"""``heed runs`` and ``heed report``: runs as a table, and as pages, which are files or served while the runs train."""

import argparse
import json

from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError


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
    from heed.report.server import make_server

    if bool(args.runs) == bool(args.serve):
        raise HeedError("Give either run folders, or a folder of runs with --serve DIR.")
    for folder in args.runs:
        write_lines([f"Report: {path_text(write_report(folder))}"])
    if args.serve:
        with make_server(args.serve, args.port) as server:
            write_lines([f"heed reports {args.serve} at http://127.0.0.1:{server.server_port} (Ctrl-C to stop)"])
            server.serve_forever()
