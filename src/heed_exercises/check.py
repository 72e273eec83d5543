"""Compare an implementation, or a student's file, with the solution of its exercise, on new random inputs each time."""

import math
import secrets
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heed.errors import HeedError, first_line
from heed.files import writing
from heed_exercises.exercise import Exercise, find, load

TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-9)}
"""Relative and absolute tolerance in torch's default dtype, in which inputs are drawn."""

Observed = Iterable[tuple[str, Any]]
"""The results and gradients of an implementation, by name."""


class CheckError(Exception):
    """An implementation is wrong. The message says what, and the seed of the inputs."""


def check(name: str, implementation: Callable[..., Any], *, seed: int | None = None) -> str:
    """Compare the results of an implementation, and their gradients, with those of the solution.

    Args:
        implementation: takes the arguments of the solution.
        seed: of the random inputs; None: new ones.

    Returns:
        What was compared.

    Raises:
        CheckError: something differs. If it is what a known mistake gives, the message explains the mistake.
        HeedError: there is no such exercise.
    """
    exercise = find(name)
    seed = secrets.randbelow(10**6) if seed is None else seed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        inputs = list(exercise.draw_inputs())
    for case, arguments in inputs:
        found = list(_observe(exercise, implementation, arguments))
        if difference := _difference(_observe(exercise, exercise.solution(), arguments), found):
            named = zip(exercise.parameters(), arguments, strict=True)
            facts = [f"{name}={value:.6g}" for name, value in named if isinstance(value, int | float)]
            same = (each for each in exercise.mistakes() if not _difference(_observe(exercise, each, arguments), found))
            explanation = next((f" {' '.join((mistake.__doc__ or '').split())}" for mistake in same), "")
            raise CheckError(f"{', '.join([difference, case, *facts])} (seed {seed}).{explanation}")
    kinds = "values and gradients" if any(map(_has_gradient, inputs[0][1])) else "values"
    return f"{kinds} of {' and '.join(exercise.results)}, {', '.join(case for case, _ in inputs)}"


def _observe(exercise: Exercise, function: Callable[..., Any], arguments: Sequence[Any]) -> Observed:
    """Yield the results of an implementation by name, then the gradients of their weighted sum."""
    arguments = deepcopy(arguments)  # implementations may change them
    returned = function(*arguments)
    results = returned if isinstance(returned, tuple) else (returned,)
    yield "the number of results", len(results)
    yield from zip(exercise.results, results, strict=False)
    leaves = {name: value for name, value in zip(exercise.parameters(), arguments, strict=True) if _has_gradient(value)}
    if leaves:
        total = sum(0 * value.sum() for value in leaves.values())  # a result without a graph has gradients of 0
        total += sum((result * _weights(result)).sum() for result in results if isinstance(result, Tensor))
        for name, gradient in zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True):
            yield f"the gradient of {name}", gradient


def _difference(expected: Observed, found: Observed) -> str:
    """Return the first difference between what two implementations return, or nothing."""
    pairs = zip(expected, found, strict=False)
    return next((text for (name, one), (_, other) in pairs if (text := _compare(name, one, other))), "")


def _compare(name: str, expected: Any, found: Any) -> str:
    """Return how a value differs from the expected one, as a main clause; nothing if it is close."""
    relative, absolute = TOLERANCES[torch.get_default_dtype()]
    if not isinstance(expected, Tensor):
        try:
            value = found.__float__()  # which text lacks
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return f"{name} must be a number, not {type(found).__name__}"
        close = math.isclose(value, expected, rel_tol=relative, abs_tol=absolute)
        return "" if close else f"{name} must be {expected:.6g}, not {value:.6g}"
    if not isinstance(found, Tensor):
        return f"{name} must be a tensor, not {type(found).__name__}"
    if found.shape != expected.shape:
        return f"the shape of {name} must be {tuple(expected.shape)}, not {tuple(found.shape)}"
    expected, found = expected.detach().double(), found.detach().double()
    wrong = (~torch.isclose(found, expected, rtol=relative, atol=absolute, equal_nan=True)).nonzero().tolist()
    if not wrong:
        return ""
    numbers = (f"{part[tuple(wrong[0])].item():.6g}" for part in (expected, found))
    return f"{name}{wrong[0] or ''} must be {', not '.join(numbers)}"


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _weights(result: Tensor) -> Tensor:
    """Return different weights for all elements."""
    return torch.arange(1, result.numel() + 1).cos().view(result.shape)


# ---- the student's files


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
    """Return the option of ``heed-exercise`` that names a folder, after a space; "" for the default folder."""
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
            name, "not started", f"{path} does not exist: run `heed-exercise start {name}{dir_option(folder)}`."
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
