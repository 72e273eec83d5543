"""The exception for errors that users can fix, and the words of its messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any


class HeedError(ValueError):
    """An error the user can fix: its message says what is wrong, where, and what to do.

    Entry points print the message without a traceback and exit with status 2.
    """


class MachineError(HeedError):
    """An error of the machine, such as a full disk. The same call may succeed later."""


_on_command_line = ContextVar("_on_command_line", default=False)


def argument(name: str, value: object = None) -> str:
    """Return an argument of a Python function as the user writes it, for messages.

    In Python that is ``top_k`` or, with a value, ``top_k=5``; within `command_line_arguments`, ``--top-k`` or
    ``--top-k 5``. The value True belongs to a flag: ``sample=True`` or ``--sample``.
    """
    if not _on_command_line.get():
        return name if value is None else f"{name}={value}"
    flag = f"--{name.replace('_', '-')}"
    return flag if value is None or value is True else f"{flag} {value}"


@contextmanager
def command_line_arguments() -> Iterator[None]:
    """Let the messages that are written in this context name options of the command line (`argument`)."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type where the message is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def failure_reason(error: BaseException) -> str:
    """Return in one line why a run failed: its innermost exception, or the HeedError around it."""
    while isinstance(error.__cause__, Exception) and not isinstance(error, HeedError):
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def require(package: str, need: str, extra: str) -> Any:
    """Import an optional package, or raise the error of `missing_package`."""
    try:
        return import_module(package)
    except ImportError as error:
        raise missing_package(need, package, extra) from error


def missing_package(need: str, package: str, extra: str, otherwise: str = "") -> HeedError:
    """Return the error for an optional package that is not installed. It says how to install the extra.

    ``need`` is the subject of the message, what needs the package; ``extra`` names the optional dependencies in
    pyproject.toml that contain it; ``otherwise`` is what the user can do instead.
    """
    folder = Path(__file__).parents[2]
    clone = folder if (folder / "pyproject.toml").is_file() else "a clone of heed"
    command = f"pip install -e '.[{extra}]'"
    return HeedError(
        f"{need} needs {package}, which is not installed: run `{command}` in {clone}{otherwise and ', or '}{otherwise}."
    )
