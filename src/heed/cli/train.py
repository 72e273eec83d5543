"""``heed train``: the same program as ``python train.py``."""

import argparse

from heed.cli.arguments import Command


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="OPTION=VALUE")


def _run(args: argparse.Namespace) -> None:
    from heed.launch import main

    main(args.overrides)


COMMAND = Command(
    "train",
    "Train a translation model.",
    _add_options,
    _run,
    # Hydra parses the arguments: no word is an option of argparse, not even --help.
    parser_settings={"add_help": False, "prefix_chars": "\0"},
)
