"""``heed prepare``: what a training prepares from its corpus, without the training."""

import argparse
import sys

from heed.cli.lines import write_lines


def run(args: argparse.Namespace) -> None:
    from heed.launch.prepare import prepare
    from heed.launch.program import HEED_TRAIN

    sys.argv = [HEED_TRAIN, *args.overrides]  # messages name the program whose options these are
    write_lines([prepare(args.overrides)])
