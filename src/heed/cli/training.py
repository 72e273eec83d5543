"""``heed train``, ``heed check``, ``heed prepare`` and ``heed sweep``: trainings, and their corpus before."""

import argparse
import os
from pathlib import Path

from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError, missing_package


def train(args: argparse.Namespace) -> None:
    from heed.launch import main

    main(args.overrides)


def check(args: argparse.Namespace) -> None:
    from heed.launch.clients import check

    lines, write = (Path(words[0]) if words else None for words in (args.lines, args.write))
    data = [*args.data, *args.lines[1:], *args.write[1:]]
    options = [word for word in (*data, *args.valid) if _is_option(word)]
    train, valid = ([word for word in words if not _is_option(word)] for words in (data, args.valid))
    if not (train or options):
        raise HeedError("heed check: give a source and a target file, or options of heed train, such as data=tatoeba.")
    if train:
        entries = [[files] if len(files) == 2 else files for files in (train, valid or train)]
        given = ["data=files", f"data.train={entries[0]}", f"data.valid={entries[1]}", "data.test=null"]
        options = [*given, *([] if valid else ["data.cleaning.drop_leaked=false", "data.max_eval=1000"]), *options]
    with_sets = bool(valid) or not train
    write_lines(check([*options, *_config_dir(args)], lines=lines, write=write, with_sets=with_sets))


def prepare(args: argparse.Namespace) -> None:
    from heed.launch.clients import prepare

    write_lines([prepare([*args.overrides, *_config_dir(args)])])


def sweep(args: argparse.Namespace) -> None:
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


def _is_option(word: str) -> bool:
    return "=" in word and not os.path.exists(word)  # noqa: PTH110 - an option can be too long for Path.exists


def _config_dir(args: argparse.Namespace) -> list[str]:
    return [f"--config-dir={args.config_dir}"] if args.config_dir else []
