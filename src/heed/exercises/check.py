"""Compare an implementation with the solution of its exercise, on new random inputs each time."""

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from heed.exercises.exercise import Exercise
from heed.exercises.inputs import find

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
