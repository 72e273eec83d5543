"""Decide whether the outcome of a case is a fault."""

import json
import re
from pathlib import Path

import yaml

from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.execute import MARK, Outcome

STATUSES = (0, 2, 130)
LONGEST_MESSAGE = 4000
"""Characters of a readable message."""


def verdict(case: Case, seen: Outcome) -> str | None:
    """Describe the fault of an outcome; None if there is none. Equal faults have equal descriptions."""
    stderr = seen.stderr.decode("utf-8", "replace")
    if (seen.sandbox / MARK).exists():
        return "code of a file was executed"
    if seen.status is None:
        return f"no end within the limit: {_slow_location(stderr)}"
    if seen.status not in STATUSES:
        location = f"{_exception(stderr)} {_location(stderr)}" if seen.status > 0 else _slow_location(stderr)
        return f"exit status {seen.status}: {location}"
    if "Traceback (most recent call last)" in stderr:
        return f"exit status {seen.status} with a traceback: {_exception(stderr)} {_location(stderr)}"
    if seen.status == 2 and not _message(case, stderr):
        return "exit status 2 without a readable sentence"
    for path in seen.written:
        if fault := _unfinished(path):
            return f"{fault} (exit status {seen.status})"
    if case.valid and seen.status != 0:
        return f"a valid case was refused: {re.sub('[0-9]+', 'N', _message(case, stderr))[:80]}"
    return None


def _message(case: Case, stderr: str) -> str:
    """The error message; empty if there is none, or if it is not readable."""
    _, prefix, message = stderr.rpartition(f"{case.program}: ")
    if not prefix:  # a wrong argument: "heed translate: …"
        _, prefix, message = re.split(r"((?:^|\n)heed [a-z]+: )", f"{stderr}\nheed no: ", maxsplit=1)
    readable = prefix and len(message) < LONGEST_MESSAGE and any(letter.isalpha() for letter in message)
    return message.strip() if readable else ""


def _unfinished(path: Path) -> str | None:
    """Describe what is wrong with a file that the command wrote; None if nothing is."""
    if path.name.endswith(".partial"):
        return "a partial file was left"
    try:
        if path.name == "results.json":
            json.loads(path.read_text(encoding="utf-8"), parse_constant=_reject_constant)
        elif path.name == "config.yaml":
            yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError):
        return f"{path.name} is not readable"
    return None


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _exception(stderr: str) -> str:
    """The type of the exception that ended the last traceback."""
    names = re.findall(r"^([A-Za-z_][\w.]*)(?::|$)", stderr[stderr.rfind("Traceback (most recent call last)") :], re.M)
    return names[0] if names else ""


def _location(stderr: str) -> str:
    """The function of heed that raised the last exception."""
    return _format_frame(_frames(stderr[stderr.rfind("Traceback (most recent call last)") :])[-1:])


def _slow_location(stderr: str) -> str:
    """The outermost function of heed, except heed.cli, in faulthandler's dump, which starts with the innermost."""
    frames = _frames(stderr[stderr.rfind("(most recent call first)") :])
    inner = [(file, function) for file, function in frames if file and not file.startswith("heed/cli")]
    return _format_frame((inner or frames)[-1:])


def _frames(stderr: str) -> list[tuple[str, str]]:
    return re.findall(r'File ".*?/(?:src/(heed/[\w/]+\.py)|train\.py)", line \d+,? in (\S+)', stderr)


def _format_frame(frame: list[tuple[str, str]]) -> str:
    return f"at {frame[0][0] or 'train.py'}:{frame[0][1]}" if frame else "outside heed"
