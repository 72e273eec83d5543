"""``heed …``: what one does with trained models. One module per command; `common` has what they share."""

import argparse
import os
import sys
from collections.abc import Sequence

from heed.cli import align, attend, average, compare, evaluate, runs, score, translate
from heed.errors import HeedError

COMMANDS = [
    translate.COMMAND,
    score.COMMAND,
    evaluate.COMMAND,
    compare.COMMAND,
    align.COMMAND,
    attend.COMMAND,
    runs.COMMAND,
    average.COMMAND,
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0, 2 for what the user can mend (said in a sentence), 130 for Ctrl-C."""
    args = _parser().parse_args(argv)
    try:
        args.run(args)
        sys.stdout.flush()
    except HeedError as error:
        print(f"heed: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has had enough, which is no failure; Python would complain when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="heed", description="What one does with trained translation models.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.summary, description=command.summary)
        command.add_options(subparser)
        subparser.set_defaults(run=command.run)
    return parser
