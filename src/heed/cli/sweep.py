"""``heed sweep``: the trials of a hyperparameter search, as a table and an HTML page."""

import argparse

from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError, missing_package


def run(args: argparse.Namespace) -> None:
    if args.top < 1:
        raise HeedError(f"--top {args.top} must be at least 1.")
    try:
        from heed.report.sweep import PAGE, study_lines, write_page
        from heed.sweep.study import read_study
    except ModuleNotFoundError as error:
        package = (error.name or "optuna").partition(".")[0]
        raise missing_package("heed sweep", package, "sweep") from error

    study, page = read_study(args.study), args.html or args.study / PAGE
    write_page(study, page)
    write_lines([*study_lines(study, top=args.top), f"Page: {path_text(page)}"])
