"""The ``heed`` program: a function per subcommand; arguments.toml has their summaries and arguments."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from heed import __version__
from heed.cli.arguments import ARGUMENTS, CommandParser, add
from heed.cli.lines import discard_output
from heed.compat import print_any_character
from heed.errors import HeedError, command_line_arguments
from heed.files import writing
from heed.options import suggest

COMMANDS: dict[str, Any] = {name: section for name, section in ARGUMENTS.items() if "summary" in section}
"""The subcommands: their sections of arguments.toml by name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of heed; return its exit status, see `execute`."""
    return execute("heed", argv, _run)


def _run(words: Sequence[str]) -> None:
    _check_command(words)
    args = build_parser().parse_args(words)
    _check_working_directory()
    with command_line_arguments():
        args.run(args)


def execute(program: str, argv: Sequence[str] | None, run: Callable[[Sequence[str]], None]) -> int:
    """Run a program.

    Errors that the user can correct are printed as one sentence on stderr: a `HeedError`, an `OSError` of any file, and
    lack of memory. Other exceptions are bugs and are raised.

    Args:
        argv: the arguments; None for those of the process.

    Returns:
        The exit status: 0, or that of a SystemExit; 2 after an error that the user can correct; 130 after Ctrl-C.
    """
    try:
        if sys.stdout is None:
            raise HeedError("Standard output is closed: give a file or a pipe to write to (> FILE).")
        print_any_character()
        try:
            run(sys.argv[1:] if argv is None else list(argv))
        except SystemExit as exit_:
            # argparse and training exit with an error status, and argparse with 0 after --help, whose output is flushed
            # below.
            if exit_.code:
                return int(exit_.code)
        with writing(Path("Standard output")):
            sys.stdout.flush()
    except BrokenPipeError:
        # The program that reads the output has ended, for example `head`: this is not an error.
        discard_output()
        return 0
    except KeyboardInterrupt:
        discard_output()
        return 130
    except Exception as error:
        if (message := _user_message(error)) is None:
            raise
        discard_output()
        if sys.stderr is not None:  # None if it is closed
            print(f"{program}: {message}", file=sys.stderr)
        return 2
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; the parsed arguments have the command's function as ``run``."""
    parser = CommandParser(
        prog="heed", description="Train translation models; translate with them, evaluate, compare and inspect them."
    )
    parser.add_argument("--version", action="version", version=f"heed {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        summary, settings = command["summary"], command.get("parser", {})
        subparser = commands.add_parser(name, help=summary, description=summary, **settings)
        module, _, function = command.get("function", f"{name}.run").partition(".")
        found = import_module(f"heed.cli.{module}")
        getattr(found, "add_options", partial(add, section=name))(subparser)
        subparser.set_defaults(run=getattr(found, function))
    return parser


def _check_command(words: Sequence[str]) -> None:
    """Raise a HeedError if the first word should be a command and is none."""
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        similar = suggest(words[0], COMMANDS, section="commands")
        raise HeedError(f"{words[0]} is not a command{similar}: `heed --help` lists the commands.")


def _check_working_directory() -> None:
    """Refuse a deleted working directory: relative paths would fail, and MKL would end the process."""
    try:
        Path.cwd()
    except OSError as error:
        raise HeedError("The working directory does not exist any more: change to another one (cd).") from error


def _user_message(error: Exception) -> str | None:
    """Return the message for an error that the user can correct; None for other errors."""
    if isinstance(error, HeedError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'Reading or writing failed'}: {error.strerror or error}."
    # torch reports lack of memory as a RuntimeError, with a different message on a CPU and on a GPU.
    out_of_memory = isinstance(error, RuntimeError) and (
        type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    )
    if isinstance(error, MemoryError) or out_of_memory:
        return "Out of memory: use a smaller --batch-tokens, shorter sentences or another --device."
    return None
