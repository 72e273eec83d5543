"""``heed train``: the same program as ``python train.py``."""

import argparse

PARSER_SETTINGS = {"add_help": False, "prefix_chars": "\0"}
"""Hydra parses the arguments: no word is an option of argparse, not even ``--help``."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="OPTION=VALUE")


def run(args: argparse.Namespace) -> None:
    from heed.launch import main

    main(args.overrides)
