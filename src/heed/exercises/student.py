"""The student's files: start them and check them."""

import shlex
import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from heed.errors import HeedError, first_line
from heed.exercises.check import CheckError, check
from heed.exercises.exercise import load
from heed.exercises.inputs import find
from heed.files import writing

FOLDER = Path("exercises")
"""Default folder of a student's files."""


@dataclass(frozen=True)
class Result:
    """What the check of a student's file found."""

    exercise: str
    state: str
    """passed, failed, gap open or not started."""
    message: str
    """Why, in one or two lines."""


def dir_option(folder: Path) -> str:
    """Return the option of ``heed exercise`` that names a folder, after a space; "" for the default folder."""
    return "" if folder == FOLDER else f" --dir {shlex.quote(str(folder))}"


def start(name: str, folder: Path) -> Path:
    """Write the skeleton of an exercise into a folder and return its path.

    Raises:
        HeedError: if the file exists.
    """
    skeleton, path = find(name).skeleton(), folder / f"{name}.py"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(skeleton)
        except FileExistsError as error:
            raise HeedError(f"{path} exists and was not changed: rename or delete it to start again.") from error
    return path


def check_file(name: str, folder: Path, *, seed: int | None = None) -> Result:
    """Check the student's file of an exercise. What it prints goes to standard error."""
    find(name)
    path = folder / f"{name}.py"
    if not path.exists():
        return Result(
            name, "not started", f"{path} does not exist: run `heed exercise start {name}{dir_option(folder)}`."
        )
    try:
        with redirect_stdout(sys.stderr):
            names = load(path)
            if not callable(names.get(name)):
                return Result(name, "failed", f"{path} has no function {name}.")
            return Result(name, "passed", f"Checked: {check(name, names[name], seed=seed)}.")
    except CheckError as failure:
        return Result(name, "failed", str(failure))
    except (Exception, SystemExit) as error:
        # torch also raises NotImplementedError, with a message.
        if isinstance(error, NotImplementedError) and not error.args:
            return Result(name, "gap open", f"Write the body of {name} in {path}.")
        return Result(name, "failed", _describe(error, path))


def _describe(error: BaseException, path: Path) -> str:
    """Return the line of the student's file that an exception comes from, and what it says."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        number, line, text = error.lineno, error.text or "", error.msg
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        number, line = (frames[-1].lineno, frames[-1].line or "") if frames else (None, "")
        text = first_line(error)
    place = f"{path}, line {number}: {line.strip()}\n" if number else ""
    return f"{place}{type(error).__name__}: {text}"
