"""``heed compare``: significance tests and examples for trained systems, as an HTML page."""

import argparse
import sys
from pathlib import Path

from heed.cli.lines import write_lines
from heed.errors import HeedError


def run(args: argparse.Namespace) -> None:
    systems = _parse_groups(args)
    from heed.evaluation.metrics import METRICS, find_metrics
    from heed.report.comparison import compare_runs

    metrics = find_metrics(args.metrics.split(",") if args.metrics else (), METRICS)
    report = compare_runs(systems, split=args.split, challenge=args.challenge, metrics=metrics)
    report.write(args.out)
    lines = [str(report), f"Page: {args.out / 'index.html'}"]
    if args.table == "text":
        write_lines(lines)
    else:  # standard output has the table alone, for a file
        write_lines([report.format_scores(args.table)])
        print(*lines, sep="\n", file=sys.stderr)


def _parse_groups(args: argparse.Namespace) -> "list[Path] | dict[str, list[Path]]":
    """Return the systems to compare: the RUN arguments, or the runs by name of ``--group``."""
    if args.group and args.runs:
        raise HeedError("Give runs or --group, not both.")
    if not args.group:
        return args.runs
    groups: dict[str, list[Path]] = {}
    for group in args.group:
        name, _, paths = group.partition("=")
        if not name or not all(paths.split(",")):
            raise HeedError(f"--group {group} is not valid: write NAME=RUN or NAME=RUN,RUN, without spaces.")
        if name in groups:
            raise HeedError(f"--group names {name} twice: give all its runs at once, {name}=RUN,RUN.")
        groups[name] = [Path(path) for path in paths.split(",")]
    return groups
