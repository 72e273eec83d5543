"""``heed …``: use trained translation models. One module per command; `common` has what they share."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from heed.cli import align, attend, average, compare, evaluate, runs, score, translate
from heed.errors import HeedError
from heed.files import writing

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
    """Run one command and return its exit status: 0; 2 after an error that the user can mend; 130 after Ctrl-C.

    This is the last place where an error becomes a sentence. Most are a `HeedError` from where they are known. The
    rest are faults of the machine, which may strike anywhere: files that cannot be read or written, and used-up memory.
    """
    try:
        if sys.stdout is None:
            raise HeedError("Standard output is closed: give a file or a pipe to write to (> FILE).")
        try:
            args = _parser().parse_args(argv)
            _check_working_directory()
            args.run(args)
        except SystemExit as left:
            # After --help (0) or a mistake in the arguments (2). What they printed must arrive, too.
            if left.code:
                return int(left.code)
        with writing(Path("Standard output")):
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has had enough, which is no failure.
        _drop_output()
        return 0
    except KeyboardInterrupt:
        _drop_output()
        return 130
    except Exception as error:
        if (sentence := _sentence(error)) is None:
            raise
        _drop_output()
        if sys.stderr is not None:  # closed: the exit status alone has to tell
            print(f"heed: {sentence}", file=sys.stderr)
        return 2
    return 0


def _check_working_directory() -> None:
    """Without one relative paths mean nothing, and MKL ends the process in its own words."""
    try:
        Path.cwd()
    except OSError as error:
        raise HeedError("The working directory is not there any more: change to another one (cd).") from error


def _sentence(error: Exception) -> str | None:
    """What is said of an error that the user can mend; None for a mistake of heed's own."""
    if isinstance(error, HeedError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'Reading or writing failed'}: {error.strerror or error}."
    # torch raises RuntimeErrors of its own, on a CPU and on a GPU.
    out_of_memory = isinstance(error, RuntimeError) and (
        type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    )
    if isinstance(error, MemoryError) or out_of_memory:
        return "The memory is used up: choose smaller --batch-tokens, shorter sentences or another --device."
    return None


def _drop_output() -> None:
    """Keep Python from trying again, when it exits, to write what could not be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="heed", description="Use trained translation models.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.summary, description=command.summary)
        command.add_options(subparser)
        subparser.set_defaults(run=command.run)
    return parser
