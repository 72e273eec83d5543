"""Checks of argument types and shapes, which jaxtyping adds to heed's functions in tests (see scripts/test.py)."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from beartype import beartype

ALWAYS = 100
"""Calls of a function that are checked in every test."""
ONE_IN = 20
"""Of the calls after these, one in this many is checked."""

_calls: Counter[Callable[..., Any]] = Counter()


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the arguments and results as beartype does, but not in every one of the many equal steps of a run."""
    checked = beartype(function)

    def check_some_calls(*args: Any, **kwargs: Any) -> None:
        _calls[function] += 1
        if _calls[function] <= ALWAYS or _calls[function] % ONE_IN == 0:
            checked(*args, **kwargs)

    return check_some_calls


def start_test() -> None:
    """Check the first calls of every function again."""
    _calls.clear()
