"""``heed score``: how likely a model thinks given translations."""

import argparse
from pathlib import Path

from heed.cli.common import (
    Command,
    add_model_options,
    load_translator,
    read_file,
    see_that_lines_match,
    write_lines,
)


def _score_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument("--src", required=True, type=Path, metavar="FILE", help="source sentences")
    parser.add_argument("--tgt", required=True, type=Path, metavar="FILE", help="their translations, line by line")


def _score(args: argparse.Namespace) -> None:
    sources, targets = read_file(args.src), read_file(args.tgt)
    see_that_lines_match({args.src: sources, args.tgt: targets})
    scores = load_translator(args).score(sources, targets)
    write_lines(f"{score:.6f}" for score in scores)


COMMAND = Command(
    "score",
    "Print log p(target | source) of sentence pairs: nats, summed over subwords and end of sentence, not normalised.",
    _score_options,
    _score,
)
