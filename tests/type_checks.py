"""Checks of argument types and shapes, which jaxtyping adds to heed's functions in tests (see scripts/test.py)."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import jaxtyping

ALWAYS = 2
"""Calls of a function that are checked in every test."""
ONE_IN = 20
"""Of the calls after these, one in this many is checked."""

_decorator = jaxtyping.jaxtyped
_test = 0


def _check_some_calls(**settings: Any) -> Callable[..., Any]:
    """Decorate as jaxtyping does, but do not check every one of the many equal steps of a run."""
    add_checks = _decorator(**settings)

    def decorate(decorated: Any) -> Any:
        if inspect.isfunction(decorated):
            return _sometimes(add_checks(decorated), decorated)
        if inspect.isclass(decorated):  # jaxtyping checks the fields of dataclasses in __init__
            plain = decorated.__init__
            checked = add_checks(decorated)
            if checked.__init__ is not plain:
                checked.__init__ = _sometimes(checked.__init__, plain)
            return checked
        return add_checks(decorated)

    return decorate


def _sometimes(checked: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the checked one in the first calls of a test and in some later ones."""
    calls, test = 0, 0

    @wraps(checked)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls, test
        calls, test = calls + 1 if test == _test else 1, _test
        return (checked if calls <= ALWAYS or calls % ONE_IN == 0 else plain)(*args, **kwargs)

    return call


def start_test() -> None:
    """Check the first calls of every function again."""
    global _test
    _test += 1


# The import hook of jaxtyping looks this name up in every module of heed that it loads.
jaxtyping.jaxtyped = _check_some_calls
