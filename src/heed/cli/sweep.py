"""``heed sweep``: the trials of a hyperparameter search, as a table and an HTML page."""

import argparse
import time

from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError, missing_package

WATCH_INTERVAL = 5.0
"""Seconds between two looks at a study."""


def run(args: argparse.Namespace) -> None:
    if args.top < 1:
        raise HeedError(f"--top {args.top} must be at least 1.")
    try:
        from heed.report.sweep import PAGE, study_lines, write_page
        from heed.sweep.summary import read_study
    except ModuleNotFoundError as error:
        raise missing_package("heed sweep", error.name or "optuna", "sweep") from error

    page = args.html or args.study / PAGE
    shown: list[str] = []
    looks_after_end = 0
    while True:
        study = read_study(args.study, storage=args.storage)
        lines = study_lines(study, top=args.top)
        if lines != shown:
            write_lines(["", *lines] if shown else lines)
            write_page(study, page)
            shown = lines
        # Between the search and its confirmation nothing is running for a moment, and after the confirmation, the test
        # sets are translated for the verdict.
        is_busy = study.is_searching or study.confirming or (study.confirmed and not study.verdict)
        looks_after_end = 0 if is_busy else looks_after_end + 1
        if not args.watch or looks_after_end == 2 or (looks_after_end and study.verdict):
            break
        time.sleep(WATCH_INTERVAL)
    write_lines([f"Page: {path_text(page)}"])
