"""What a setting may be, written where it is declared, and what is said of one that is not.

A constructor's signature is its schema: ``warmup_steps: AtLeast0`` is a whole number from 0 on.
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


@dataclass(frozen=True)
class Range:
    """Marks a finite number: ``at_least`` ≤ x or ``above`` < x; x < ``below`` or x ≤ ``at_most``; None: no limit."""

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
        limits = (
            ("of at least", self.at_least),
            ("above", self.above),
            ("below", self.below),
            ("at most", self.at_most),
        )
        return " and ".join(f"{name} {limit:,}" for name, limit in limits if limit is not None)


AtLeast0 = Annotated[int, Range(0)]
AtLeast1 = Annotated[int, Range(1)]
Share = Annotated[float, Range(0, below=1)]
NotNegative = Annotated[float, Range(0)]
Positive = Annotated[float, Range(above=0)]
Depth = Annotated[int, Range(1, at_most=1000)]
"""Layers: ten times as many as anybody trains, and few enough to be built at once."""


def check(target: Callable[..., Any], given: Mapping[str, Any], *, where: str) -> None:
    """Raise a HeedError that lists all `problems` of these settings; some may be left to their defaults."""
    if found := problems(target, given, where=where, later=inspect.signature(target).parameters):
        raise HeedError(" ".join(found))


def from_plain(cls: type[Plain], data: Any, *, where: str) -> Plain:
    """Build a dataclass, and the dataclasses among its fields, from nested mappings.

    Raises:
        HeedError: listing what is missing, unknown, of another type or out of range, by names that start with
            ``where`` ("model.").
    """
    if not isinstance(data, Mapping):
        raise HeedError(f"{where.removesuffix('.')}={shown(data)} must be a mapping.")
    parts = {
        name: from_plain(hint, data[name], where=f"{where}{name}.")
        for name, hint in get_type_hints(cls).items()
        if is_dataclass(hint) and isinstance(hint, type) and name in data
    }
    if found := problems(cls, {**data, **parts}, where=where):
        raise HeedError(" ".join(found))
    return cls(**{**data, **parts})


def problems(
    target: Callable[..., Any], given: Mapping[str, Any], *, where: str, later: Collection[str] = ()
) -> list[str]:
    """Everything wrong with these settings for this constructor, a sentence each, by names such as ``model.dropout``.

    Args:
        given: plain data, except for parts that have been seen to already.
        where: what stands before every name: "model." or "".
        later: parameters that the program gives itself.
    """
    parameters = inspect.signature(target).parameters
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    found = []
    for name, value in given.items():
        if name in parameters:
            hint = hints.get(name, Any)
            if value == MISSING:
                found.append(f"{where}{name} must be given: it has no default.")
            elif not allows(hint, value):
                found.append(f"{where}{name}={shown(value)} must be {described(hint)}.")
        elif not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            found.append(f"{where}{shown(name)} is unknown{did_you_mean(str(name), list(parameters), where)}.")
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    required = {name for name, p in parameters.items() if p.default is p.empty and p.kind not in variable}
    found += [f"{where}{name} is missing." for name in sorted(required - given.keys() - set(later))]
    return found


MISSING = "???"
"""OmegaConf's mark for what the user must give."""


SHOWN = 200
"""Characters of a wrong value that a message repeats."""


def allows(hint: Any, value: Any) -> bool:
    """Whether plain data is of a type: a list may stand for any sequence, and a whole number for any number."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind, *marks = arguments
        return allows(kind, value) and all(value in mark for mark in marks if isinstance(mark, Range))
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(allows(choice, value) for choice in arguments)
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
            return len(value) == len(arguments) and all(map(allows, arguments, value))
        return not arguments or all(allows(arguments[0], item) for item in value)
    if isinstance(value, dict) and inspect.isclass(kind) and issubclass(kind, Mapping):
        return not arguments or all(allows(arguments[1], item) for item in value.values())
    # Anything else is no plain data: a part built from its own settings, or a type this module does not know.
    return not isinstance(value, (str, int, float, list, dict)) or not inspect.isclass(kind)


def described(hint: Any) -> str:
    """The same type in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return " ".join([described(arguments[0]), *(str(mark) for mark in arguments[1:] if isinstance(mark, Range))])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(described(choice) for choice in arguments if not _is_foreign(choice)))
    if origin is Literal:
        return " or ".join(map(str, arguments))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if hint in names:
        return names[hint]
    kind = origin or hint
    if kind is tuple and arguments and Ellipsis not in arguments:
        return f"a list of {len(arguments)}: {', '.join(map(described, arguments))}"
    return "a mapping" if inspect.isclass(kind) and issubclass(kind, Mapping) else "a list"


def _is_foreign(hint: Any) -> bool:
    """A class that plain data cannot be, as torch's signatures have them beside numbers."""
    if get_origin(hint) is Annotated:
        return _is_foreign(get_args(hint)[0])
    kind = get_origin(hint) or hint
    plain = (int, float, bool, str, types.NoneType, Sequence, Mapping)
    return inspect.isclass(kind) and not issubclass(kind, plain)


def shown(value: Any) -> str:
    """A value as one writes it on the command line, in one line and cut where it is long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 4 * SHOWN:
        return f"a number of {value.bit_length():,} bits"  # Python refuses to write the longest out
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def did_you_mean(name: str, known: Iterable[str], where: str = "") -> str:
    """`` (did you mean …?)``, where something like this name is known; else nothing."""
    close = get_close_matches(name, dict.fromkeys(known), n=3)
    return f" (did you mean {' or '.join(where + name for name in close)}?)" if close else ""
