"""What every command must hold, whatever it was given."""

import json
import re
from pathlib import Path

import yaml

from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.execute import MARK, Outcome

STATUSES = (0, 2, 130)
LONGEST_MESSAGE = 4000
"""Characters. Nobody reads a longer one."""


def verdict(case: Case, seen: Outcome) -> str | None:
    """The fault, the same words for the same fault, or None."""
    said = seen.stderr.decode("utf-8", "replace")
    if (seen.sandbox / MARK).exists():
        return "code of a file was executed"
    if seen.status is None:
        return f"no end within the limit: {_slow_place(said)}"
    if seen.status not in STATUSES:
        place = f"{_exception(said)} {_place(said)}" if seen.status > 0 else _slow_place(said)
        return f"exit status {seen.status}: {place}"
    if "Traceback (most recent call last)" in said:
        return f"exit status {seen.status} with a traceback: {_exception(said)} {_place(said)}"
    if seen.status == 2 and not _sentence(case, said):
        return "exit status 2 without a readable sentence"
    for path in seen.written:
        if fault := _half_written(path):
            return f"{fault} (exit status {seen.status})"
    if case.valid and seen.status != 0:
        return f"a valid case was refused: {re.sub('[0-9]+', 'N', _sentence(case, said))[:80]}"
    return None


def _sentence(case: Case, said: str) -> str:
    """The message of a refusal; empty if it is none, or not readable."""
    _, prefix, message = said.rpartition(f"{case.program}: ")
    if not prefix:  # argparse: "heed translate: error: …"
        _, prefix, message = said.rpartition(": error: ")
    readable = prefix and len(message) < LONGEST_MESSAGE and any(letter.isalpha() for letter in message)
    return message.strip() if readable else ""


def _half_written(path: Path) -> str | None:
    if path.name.endswith(".partial"):
        return "a partial file was left"
    try:
        if path.name == "results.json":
            json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_json)
        elif path.name == "config.yaml":
            yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError):
        return f"{path.name} is not readable"
    return None


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _exception(said: str) -> str:
    """The type of the exception that ended the last traceback."""
    names = re.findall(r"^([A-Za-z_][\w.]*)(?::|$)", said[said.rfind("Traceback (most recent call last)") :], re.M)
    return names[0] if names else ""


def _place(said: str) -> str:
    """The function of heed in which the last exception was raised."""
    return _named(_frames(said[said.rfind("Traceback (most recent call last)") :])[-1:])


def _slow_place(said: str) -> str:
    """The outermost function of heed in faulthandler's dump, which has the innermost one first; commands apart."""
    frames = _frames(said[said.rfind("(most recent call first)") :])
    inner = [(file, function) for file, function in frames if file and not file.startswith("heed/cli")]
    return _named((inner or frames)[-1:])


def _frames(said: str) -> list[tuple[str, str]]:
    return re.findall(r'File ".*?/(?:src/(heed/[\w/]+\.py)|train\.py)", line \d+,? in (\S+)', said)


def _named(frame: list[tuple[str, str]]) -> str:
    return f"at {frame[0][0] or 'train.py'}:{frame[0][1]}" if frame else "outside heed"
