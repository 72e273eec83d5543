"""``heed prepare``: what a training prepares from its corpus, without the training."""

import argparse
import sys

from heed.cli.lines import write_lines


def run(args: argparse.Namespace) -> None:
    from heed.launch.prepare import prepare
    from heed.launch.program import HEED_TRAIN

    words = [*args.overrides, *([f"--config-dir={args.config_dir}"] if args.config_dir else [])]
    sys.argv = [HEED_TRAIN, *words]  # messages name the program whose options these are
    write_lines([prepare(words)])
