"""Check arguments against the constructor that they are for, and describe all that is wrong with them.

A signature is a schema: ``warmup_steps: AtLeast0`` is an integer >= 0. pydantic checks types and ranges; it is imported
at the first check, so that ``heed --help`` does not wait for it.
"""

import inspect
import re
import tomllib
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import DocInfo, Interval, Predicate, doc

from heed.errors import HeedError

T = TypeVar("T")

AtLeast0 = Annotated[int, Interval(ge=0)]
AtLeast1 = Annotated[int, Interval(ge=1)]
UnitInterval = Annotated[float, Interval(ge=0, lt=1)]
Probability = Annotated[float, Interval(ge=0, le=1)]
NotNegative = Annotated[float, Interval(ge=0)]
Positive = Annotated[float, Interval(gt=0)]
Depth = Annotated[int, Interval(ge=1, le=1000)]
"""A number of layers. Building more would take very long; nobody trains more than about a hundred."""
Duration = Annotated[
    str, Predicate(re.compile(r"\d+(:\d\d){3}").fullmatch), doc("a time such as 00:00:05:00 (DD:HH:MM:SS)")
]

MISSING = "???"
"""OmegaConf's mark for an option without a default that was not given."""

MAX_CHARS = 200
"""Characters of a wrong value that a message repeats."""


def validated(where: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that checks the arguments of the constructor before it runs.

    ``where``, such as "model.", is the prefix of every option's name in messages.
    """

    def decorate(cls: type[T]) -> type[T]:
        construct: Any = cls.__init__

        @wraps(construct)
        def checked(self: T, *args: Any, **kwargs: Any) -> None:
            positional = dict(zip(inspect.signature(cls).parameters, args, strict=False))
            raise_problems(find_problems(cls, {**positional, **kwargs}, where=where))
            construct(self, *args, **kwargs)

        cls.__init__ = checked  # type: ignore[method-assign, assignment]
        return cls

    return decorate


def get_option(options: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return the option with a dotted name in nested mappings, or the default."""
    node: Any = options
    for key in name.split("."):
        if not isinstance(node, Mapping) or key not in node:
            return default
        node = node[key]
    return node


def with_options(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings with other values for some dotted names; what is given stays as it is."""
    changed = dict(options)
    for name, value in values.items():
        first, _, rest = name.partition(".")
        changed[first] = with_options(changed.get(first) or {}, {rest: value}) if rest else value
    return changed


def from_plain(cls: type[T], data: Any, *, where: str) -> T:
    """Build a dataclass, and the dataclasses among its fields, from nested mappings.

    Raises:
        HeedError: listing all options that are missing, unknown, of the wrong type, out of range or contradictory.
    """
    if not isinstance(data, Mapping):
        raise HeedError(f"{where.removesuffix('.')}={format_value(data)} must be a mapping.")
    hints: dict[str, type[Any]] = get_type_hints(cls)
    arguments = dict(data)
    problems: list[str] = []
    parts = [name for name, hint in hints.items() if name in data and is_dataclass(hint)]
    for name in parts:
        with collect_problems(problems):
            arguments[name] = from_plain(hints[name], arguments.pop(name), where=f"{where}{name}.")
    raise_problems(problems + find_problems(cls, arguments, where=where, later=parts))
    return cls(**arguments)


def find_problems(
    target: Callable[..., Any], given: Mapping[str, Any], *, where: str, later: Collection[str] = (), name: str = ""
) -> list[str]:
    """Return what is wrong with the names, types and ranges of a constructor's arguments, one sentence each.

    ``given`` are plain data, or objects that were built before; parameters in ``later`` may be missing.
    With the constructor's ``name`` in a configuration, messages say how to leave an option out.
    """
    parameters = inspect.signature(target).parameters
    named = {name: p for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    hints = dict.fromkeys(named, Any) | {n: hint for n, hint in argument_types(target).items() if n in named}
    known = {name: value for name, value in given.items() if value != MISSING}
    found = find_wrong_values(hints, known, where=where)
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for key in (str(name) for name in given if name not in named):
            leave_out = f" to {name} (~{where}{key} leaves it out)" if name else ""
            found.append(f"{where}{format_value(key)} is unknown{suggest(key, named, where) or leave_out}.")
    required = {name for name, p in named.items() if p.default is p.empty or given.get(name) == MISSING}
    missing = sorted(required - known.keys() - set(later))
    return found + [f"{where}{name} must be given: it has no default." for name in missing]


def find_wrong_values(hints: Mapping[str, Any], given: Mapping[str, Any], *, where: str) -> list[str]:
    """Return which values are of a wrong type or out of range, one sentence each; names without a hint are ignored."""
    from pydantic import ValidationError

    known = {name: given[name] for name in hints if name in given}
    try:
        _adapter(tuple(hints.items())).validate_python(known)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        # An option has several errors if its type has alternatives.
        wrong = {str(detail["loc"][0]): " and finite" * (detail["type"] == "finite_number") for detail in details}
        given_as = {name: f"{where}{name}={format_value(known[name])}" for name in wrong}
        return [
            f"{given_as[name]} must be {describe_type(hints[name])}{more}{suggest(given_as[name], ())}."
            for name, more in wrong.items()
        ]
    return []


def raise_problems(problems: Iterable[str]) -> None:
    """Raise a HeedError with these sentences, one a line, unless there are none."""
    if text := "\n".join(problems):
        raise HeedError(text)


@contextmanager
def collect_problems(problems: list[str]) -> Iterator[None]:
    """Append the sentences of a HeedError to ``problems`` instead of raising it."""
    try:
        yield
    except HeedError as error:
        problems += str(error).splitlines()


def argument_types(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a constructor's or a function's arguments, as far as they can be resolved."""
    function = target.__init__ if inspect.isclass(target) else target
    hints, names = {}, getattr(inspect.unwrap(function), "__globals__", {})
    for name, annotation in getattr(function, "__annotations__", {}).items():
        with suppress(NameError):  # another library's hint may be a name that it imports for type checkers only
            hints[name] = eval(annotation, names) if isinstance(annotation, str) else annotation
    return hints


@cache
def _adapter(hints: tuple[tuple[str, Any], ...]) -> Any:
    """Return pydantic's check of a mapping with some of these names."""
    from pydantic import ConfigDict, InstanceOf, Strict, TypeAdapter, with_config
    from typing_extensions import TypedDict

    def readable(hint: Any) -> Any:
        """Let a tuple be a list, because plain data has no tuples, and a dataclass an object that was built before."""
        if get_origin(hint) in (Union, types.UnionType):
            return Union[tuple(map(readable, get_args(hint)))]  # noqa: UP007  # of any length
        if get_origin(hint) is tuple:
            return Annotated[hint, Strict(False)]
        return InstanceOf[hint] if is_dataclass(hint) else hint  # type: ignore[misc]

    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    fields = {name: readable(hint) for name, hint in hints}
    return TypeAdapter(with_config(config)(TypedDict("Arguments", fields, total=False)))  # type: ignore[operator]


# ---- words for messages


def describe_type(hint: Any) -> str:
    """Return a type in words: "an integer >= 1 or null"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if words := [mark.documentation for mark in arguments[1:] if isinstance(mark, DocInfo)]:
            return words[0]
        ranges = [_describe_range(mark) for mark in arguments[1:] if isinstance(mark, Interval)]
        return " ".join([describe_type(arguments[0]), *ranges])
    if origin in (Union, types.UnionType):
        choices = dict.fromkeys(map(describe_type, arguments))
        return " or ".join(choice for choice in choices if choice != "a Tensor")  # for torch's optimizers
    if origin is Literal:
        return " or ".join(map(str, arguments))
    kind = origin or hint
    names: dict[Any, str] = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    names |= {types.NoneType: "null", Callable: "a function"}
    if kind is tuple and arguments and Ellipsis not in arguments:
        return f"a list of {len(arguments)}: {', '.join(map(describe_type, arguments))}"
    if kind in names or not inspect.isclass(kind):
        return names.get(kind, str(hint))
    if issubclass(kind, Collection):
        return "a mapping" if issubclass(kind, Mapping) else "a list"
    if is_dataclass(kind):
        return "a mapping of options"
    return f"a{'n' * (kind.__name__[0] in 'AEIOU')} {kind.__name__}"


def _describe_range(interval: Interval) -> str:
    """Return a range in words: "in [0, 1)", or with one limit only "> 0"."""
    limits = {">=": interval.ge, ">": interval.gt, "<=": interval.le, "<": interval.lt}
    found = [(sign, limit) for sign, limit in limits.items() if limit is not None]
    if len(found) == 1:
        return " ".join(map(str, found[0]))
    (left, low), (right, high) = found
    return f"in {'[' if left == '>=' else '('}{low}, {high}{']' if right == '<=' else ')'}"


def format_value(value: Any) -> str:
    """Return a value as written on the command line, in one line of at most `MAX_CHARS` characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 4 * MAX_CHARS:
        return f"a number of {value.bit_length():,} bits"  # Python refuses to convert very long integers to text
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


def suggest(name: str, known: Collection[str], where: str = "", *, section: str = "train") -> str:
    """Return `` (in heed: …)`` for a name of another tool, see `in_heed`, or else what `did_you_mean` returns."""
    words = in_heed(where + name, section=section, known=known if section == "flags" else None)
    return f" (in heed: {words})" if words else did_you_mean(name, known, where)


def did_you_mean(name: str, known: Iterable[str], where: str = "") -> str:
    """Return `` (did you mean …?)`` with at most three known names that are similar, or nothing.

    A name with the last part of a single known one (``lr`` of ``optimizer.lr``) means that one. Otherwise both the last
    part and the path, if there is one, must be similar: long paths are no reason to offer another option.
    """
    parts = {each: _path_and_last(each) for each in known}
    path, last = _path_and_last(name)
    found = [each for each, (_, other) in parts.items() if other == last]
    if len({each.replace("/", ".") for each in found}) != 1:
        lasts = get_close_matches(last, {other for _, other in parts.values()}, n=9, cutoff=0.75)
        paths = get_close_matches(path, {other for other, _ in parts.values()}, n=9, cutoff=0.75)
        close = [each for other in lasts for each in parts if parts[each][1] == other]
        close = [each for each in close if not path or parts[each][0] in paths]
        found = [each for each in close if bool(parts[each][0]) == bool(path)] or close
    return f" (did you mean {' or '.join(where + each for each in found[:3])}?)" if found else ""


def _path_and_last(name: str) -> tuple[str, str]:
    path, _, last = name.replace("/", ".").rpartition(".")
    return path, last


# ---- heed's words for what users of other tools type first: habits.toml


@cache
def read_habits(section: str) -> dict[str, str]:
    """Return heed's words by the name in other tools, of a section of ``habits.toml``."""
    rows = tomllib.loads(Path(__file__).with_name("habits.toml").read_text(encoding="utf-8"))[section]
    return {name: words for names, words in rows.items() for name in names.split()}


def in_heed(name: str, *, section: str = "train", known: Collection[str] | None = None) -> str:
    """Return heed's words for an option, a choice such as ``model=lstm``, a flag or a command of other tools, or "".

    Args:
        name: with or without its path: ``trainer.gpus`` or ``gpus``.
        known: the names that exist: the first of the words that is one of them is returned. None: return all words.
    """
    rows, name = read_habits(section), name.lstrip("+~-").replace("-", "_").lower()
    words = rows.get(name) or ("" if "=" in name else rows.get(re.split("[./]", name)[-1], ""))
    if known is not None:
        return next((word for word in words.split() if word in known), "")
    return "" if name in exact(words).split() else words


def exact(words: str) -> str:
    """Return the options among heed's words, which a comma or a colon ends."""
    return re.split("[,:] |$", words)[0]
