"""``heed score``: log-probabilities of given translations."""

import argparse
from pathlib import Path

from heed.cli.arguments import Command, add_model_options, load_translator
from heed.cli.lines import check_line_counts, read_file, translator_progress, write_lines


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument("--src", required=True, type=Path, metavar="FILE", help="source sentences, one per line")
    parser.add_argument("--tgt", required=True, type=Path, metavar="FILE", help="their translations, one per line")


def _run(args: argparse.Namespace) -> None:
    sources, targets = read_file(args.src), read_file(args.tgt)
    check_line_counts({args.src: sources, args.tgt: targets})
    translator = load_translator(args)
    with translator_progress(translator, "Scoring", total=len(sources), prints_results=False):
        scores = translator.score(sources, targets)
    write_lines(f"{score:.6f}" for score in scores)


COMMAND = Command(
    "score",
    "Print log p(target | source) of sentence pairs in nats, summed over subwords and end of sentence.",
    _add_options,
    _run,
)
