"""``heed score``: log-probabilities of given translations."""

import argparse

from heed.cli.arguments import load_translator
from heed.cli.lines import read_parallel, translator_progress, write_lines


def run(args: argparse.Namespace) -> None:
    sources, targets = read_parallel(args.src, args.tgt)
    translator = load_translator(args)
    with translator_progress(translator, "Scoring", total=len(sources), prints_results=False):
        scores = translator.score(sources, targets)
    write_lines(f"{score:.6f}" for score in scores)
