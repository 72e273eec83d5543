"""``heed report``: the pages of runs, as files or served while the runs train."""

import argparse

from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError


def run(args: argparse.Namespace) -> None:
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
