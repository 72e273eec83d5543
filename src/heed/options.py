"""Check options against the constructor that they are for, and describe what is wrong with them.

A constructor's signature is its schema: ``warmup_steps: AtLeast0`` is an integer >= 0.
"""

import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from heed.errors import HeedError

Plain = TypeVar("Plain")
"""A dataclass that is built from plain data."""


@dataclass(frozen=True)
class Range:
    """A finite number's allowed values x: ``at_least`` <= x or ``above`` < x; x < ``below`` or x <= ``at_most``."""

    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    at_most: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (isinstance(value, int) or math.isfinite(value))
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )

    def __str__(self) -> str:
        """The range as an interval such as "in [0, 1)", or with one limit only as "> 0"."""
        low = self.above if self.at_least is None else self.at_least
        high = self.below if self.at_most is None else self.at_most
        if low is not None and high is not None:
            return f"in {'(' if self.at_least is None else '['}{low}, {high}{')' if self.at_most is None else ']'}"
        if low is not None:
            return f"{'>' if self.at_least is None else '>='} {low}"
        return "finite" if high is None else f"{'<' if self.at_most is None else '<='} {high}"


AtLeast0 = Annotated[int, Range(0)]
AtLeast1 = Annotated[int, Range(1)]
Share = Annotated[float, Range(0, below=1)]
NotNegative = Annotated[float, Range(0)]
Positive = Annotated[float, Range(above=0)]
Depth = Annotated[int, Range(1, at_most=1000)]
"""A number of layers. Building more would take very long; nobody trains more than about a hundred."""

MISSING = "???"
"""OmegaConf's mark for an option without a default that was not given."""

MAX_SHOWN = 200
"""Characters of a wrong value that a message repeats."""


# ---- checks


def check(target: Callable[..., Any], given: Mapping[str, Any], *, where: str) -> None:
    """Check options for a constructor; some may be left to their defaults.

    Args:
        where: the prefix of every option's name in messages: "model." or "".

    Raises:
        HeedError: listing all problems (`find_problems`).
    """
    if found := find_problems(target, given, where=where, later=inspect.signature(target).parameters):
        raise HeedError(" ".join(found))


def from_plain(cls: type[Plain], data: Any, *, where: str) -> Plain:
    """Build a dataclass, and the dataclasses among its fields, from nested mappings.

    Args:
        where: as for `check`.

    Raises:
        HeedError: listing all options that are missing, unknown, of the wrong type or out of range.
    """
    if not isinstance(data, Mapping):
        raise HeedError(f"{where.removesuffix('.')}={shown(data)} must be a mapping.")
    parts = {
        name: from_plain(hint, data[name], where=f"{where}{name}.")
        for name, hint in get_type_hints(cls).items()
        if is_dataclass(hint) and isinstance(hint, type) and name in data
    }
    if found := find_problems(cls, {**data, **parts}, where=where):
        raise HeedError(" ".join(found))
    return cls(**{**data, **parts})


def find_problems(
    target: Callable[..., Any], given: Mapping[str, Any], *, where: str, later: Collection[str] = ()
) -> list[str]:
    """Return what is wrong with options for a constructor, one sentence each.

    Args:
        given: plain data; a value may also be an object that was built from its own options.
        where: as for `check`.
        later: parameters that the program passes itself.
    """
    parameters = inspect.signature(target).parameters
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    found = []
    for name, value in given.items():
        if name in parameters:
            hint = hints.get(name, Any)
            if value == MISSING:
                found.append(f"{where}{name} must be given: it has no default.")
            elif not matches_type(hint, value):
                found.append(f"{where}{name}={shown(value)} must be {_expected(hint, value)}.")
        elif not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            found.append(f"{where}{shown(name)} is unknown{did_you_mean(str(name), list(parameters), where)}.")
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    required = {name for name, p in parameters.items() if p.default is p.empty and p.kind not in variable}
    found += [f"{where}{name} is missing." for name in sorted(required - given.keys() - set(later))]
    return found


def matches_type(hint: Any, value: Any) -> bool:
    """Return whether plain data has a type: a list matches any sequence, an integer any number."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind, *marks = arguments
        return matches_type(kind, value) and all(value in mark for mark in marks if isinstance(mark, Range))
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(matches_type(choice, value) for choice in arguments)
    if origin is Literal:
        return value in arguments
    if hint in (None, type(None)):
        return value is None
    if hint in (int, float):
        return isinstance(value, int if hint is int else (int, float)) and not isinstance(value, bool)
    if hint in (bool, str):
        return isinstance(value, hint)
    kind = origin or hint
    if isinstance(value, list) and inspect.isclass(kind) and issubclass(kind, Sequence):
        if kind is tuple and Ellipsis not in arguments:
            return len(value) == len(arguments) and all(map(matches_type, arguments, value))
        return not arguments or all(matches_type(arguments[0], item) for item in value)
    if isinstance(value, dict) and inspect.isclass(kind) and issubclass(kind, Mapping):
        return not arguments or all(matches_type(arguments[1], item) for item in value.values())
    # Anything else is not plain data: an object built from its own options, or a type that is not checked here.
    return not isinstance(value, (str, int, float, list, dict)) or not inspect.isclass(kind)


# ---- words for messages


def describe_type(hint: Any) -> str:
    """Return a type in words: "an integer >= 1 or null"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return " ".join([describe_type(arguments[0]), *_ranges(hint)])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe_type(choice) for choice in arguments if _is_plain(choice)))
    if origin is Literal:
        return " or ".join(map(str, arguments))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if hint in names:
        return names[hint]
    kind = origin or hint
    if kind is tuple and arguments and Ellipsis not in arguments:
        return f"a list of {len(arguments)}: {', '.join(map(describe_type, arguments))}"
    return "a mapping" if inspect.isclass(kind) and issubclass(kind, Mapping) else "a list"


def _expected(hint: Any, value: Any) -> str:
    """Return what a wrong value must be: its range where the type is right ("in [0, 1)"), else the type."""
    if get_origin(hint) is Annotated and matches_type(get_args(hint)[0], value):
        not_finite = isinstance(value, float) and not math.isfinite(value)
        return " and ".join([*_ranges(hint), *(["finite"] if not_finite else [])])
    return describe_type(hint)


def _ranges(hint: Any) -> list[str]:
    return [str(mark) for mark in get_args(hint)[1:] if isinstance(mark, Range)]


def _is_plain(hint: Any) -> bool:
    """Return whether plain data can have this type; torch's signatures allow tensors next to numbers."""
    if get_origin(hint) is Annotated:
        return _is_plain(get_args(hint)[0])
    kind = get_origin(hint) or hint
    plain = (int, float, bool, str, types.NoneType, Sequence, Mapping)
    return not inspect.isclass(kind) or issubclass(kind, plain)


def shown(value: Any) -> str:
    """Return a value as written on the command line, in one line of at most `MAX_SHOWN` characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 4 * MAX_SHOWN:
        return f"a number of {value.bit_length():,} bits"  # Python refuses to convert very long integers to text
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def did_you_mean(name: str, known: Iterable[str], where: str = "") -> str:
    """Return `` (did you mean …?)`` with the known names that are similar, or nothing."""
    close = get_close_matches(name, dict.fromkeys(known), n=3)
    return f" (did you mean {' or '.join(where + name for name in close)}?)" if close else ""
