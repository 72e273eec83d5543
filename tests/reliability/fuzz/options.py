"""Every option of train.py and ``heed``, read from the constructors, conf/ and the parsers."""

import argparse
import inspect
import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from annotated_types import Interval
from hydra.utils import get_object
from hypothesis import strategies as st

from heed.cli import build_parser
from heed.launch.compose import Schema
from tests.reliability.fuzz.execute import ROOT

CONF = ROOT / "conf"

NUMBERS: list[int | float] = [
    *(-1, 0, 1, 2, 3, 7, 1000, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**63, 2**64, 10**30),
    *(0.5, -0.5, -0.0, 1.0, 1.5, 1e-320, 1e-9, 1e38, 1e308, math.inf, -math.inf, math.nan),
]
TEXTS = ["", "x", " ", "a b", "ä", "💥", "a/b", "..", "-", "'", "{", "a\nb", "x" * 300, "null", "cpu", "en", "\t", "1"]
PLAIN = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from([None, True, False]),
    st.sampled_from([*TEXTS, "???", "${seed}", "${nowhere}", "${oc.env:NOTHING}", "${run_dir:a,b}"]),
    st.sampled_from([[], [1], [0.9, 0.98], [0.5, math.nan, "x"], [[1, 2]], {}, {"a": 1}, {"_target_": "os.getcwd"}]),
)


@dataclass(frozen=True)
class Option:
    """An option of train.py.

    Attributes:
        where: the choices of groups that it needs.
        hint: type and range.
    """

    name: str
    where: Mapping[str, str]
    hint: Any


EXCLUDED = {
    "trainer.devices": "starts processes",
    "trainer.num_nodes": "waits for other machines",
    "trainer=ddp_cpu": "starts processes",
    "trainer=ddp": "needs GPUs",
    "trainer=gpu": "needs a GPU",
    "logger=wandb": "starts a process",
    "logger=tensorboard": "not installed everywhere",
    "ckpt_path": "covered by the surface checkpoints",
    "init_from": "covered by the surface checkpoints",
    "resume": "covered by the surface checkpoints",
}


def choices() -> dict[str, list[str]]:
    """Return the choices of every group."""
    found: dict[str, list[str]] = {}
    for file in sorted(CONF.rglob("*.yaml")):
        group = str(file.parent.relative_to(CONF))
        # A search runs many runs; tests/sweep breaks its options.
        is_of_search = group.startswith(("hydra", "sweep"))
        if group not in (".", "recipe") and not is_of_search and f"{group}={file.stem}" not in EXCLUDED:
            found.setdefault(group, []).append(file.stem)
    return found


def options() -> Iterator[Option]:
    """Yield the options of the root, and of every constructor that conf/ names."""
    for field in fields(Schema):
        if field.type is not Any and field.name not in EXCLUDED:
            yield Option(field.name, {}, field.type)
    yield from _constructor_options(_read(CONF / "train.yaml")["batching"], "batching", {})
    for group, names in choices().items():
        for name in names:
            yield from _constructor_options(
                _merged(group, name), group.replace("/", "."), {**_parents(group), group: name}
            )


def _constructor_options(node: Mapping[str, Any], name: str, where: Mapping[str, str]) -> Iterator[Option]:
    if "_target_" not in node:
        for key, part in node.items():
            if isinstance(part, dict):  # an object of callbacks or logger
                yield from _constructor_options(part, f"{name}.{key}", where)
        return
    target = get_object(node["_target_"])
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    for key in node:
        if key in hints and f"{name}.{key}" not in EXCLUDED:
            yield Option(f"{name}.{key}", where, hints[key])


def _merged(group: str, name: str) -> dict[str, Any]:
    """A choice of a group, merged with the choices of the same group that it inherits from."""
    node = _read(CONF / group / f"{name}.yaml")
    merged: dict[str, Any] = {}
    for base in node.pop("defaults", []):
        if isinstance(base, str) and base != "_self_":
            merged |= _merged(group, base)
    return merged | node


def _parents(group: str) -> dict[str, str]:
    """The choice of the outer group that has this inner group: model=rnn for model/attention."""
    outer, _, inner = group.rpartition("/")
    for name in choices()[outer] if outer else []:
        defaults = _read(CONF / outer / f"{name}.yaml").get("defaults", [])
        if any(isinstance(default, dict) and inner in default for default in defaults):
            return {outer: name}
    return {}


def _read(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def valid_values(hint: Any) -> st.SearchStrategy[Any] | None:
    """Values of moderate size that the type allows; None if the type alone does not decide which are valid."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = [mark for mark in arguments[1:] if isinstance(mark, Interval)]
        return _numbers(arguments[0], marks[0]) if marks and arguments[0] in (int, float) else None
    if origin in (Union, types.UnionType):
        known = [strategy for strategy in map(valid_values, arguments) if strategy is not None]
        return st.one_of(known) if len(known) == len(arguments) else None
    if origin is Literal:
        return st.sampled_from(arguments)
    return {bool: st.booleans(), None: st.none(), type(None): st.none()}.get(hint)


def _numbers(kind: type, interval: Interval) -> st.SearchStrategy[Any]:
    low: Any = interval.ge if interval.ge is not None else interval.gt or 0
    high: Any = interval.lt if interval.lt is not None else interval.le if interval.le is not None else math.inf

    def is_inside(number: float) -> bool:
        return number != interval.gt and number != interval.lt

    if kind is int:
        return st.integers(math.ceil(low), min(math.ceil(low) + 9, high)).filter(is_inside)
    width = min(4, high - low)
    return st.integers(0, 64).map(lambda n: min(high, low + width * n / 64)).filter(is_inside)


def boundary_values(hint: Any) -> st.SearchStrategy[Any]:
    """Values at the limits of the range, just outside it, and far outside it."""
    limits = list(_marks(hint))
    numbers = [limit for mark in limits for limit in (mark.ge, mark.gt, mark.lt, mark.le) if limit is not None]
    near = [number + step for number in numbers for step in (-1, -1e-9, 0, 1e-9, 1)]
    return st.sampled_from([*near, *NUMBERS])


def _marks(hint: Any) -> Iterator[Any]:
    if isinstance(hint, Interval):
        yield hint
    else:
        for argument in (*get_args(hint), *getattr(hint, "__metadata__", ())):
            yield from _marks(argument)


def hydra_value(value: Any) -> str:
    """Format a value in the grammar of Hydra's command line."""
    if isinstance(value, str):
        return "'{}'".format(value.replace("\\", "\\\\").replace("'", "\\'"))
    if isinstance(value, list):
        return f"[{','.join(map(hydra_value, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{hydra_value(item)}' for key, item in value.items())}}}"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


# ---- heed's commands

PATHS = ["in", "in/rnn", "in/transformer/model", "in/text.xx", "in/nothing", "in/text.xx/out", "out", ""]
OUTPUTS = ("out", "png", "npz")
DEVICES = ["cpu", "cuda", "cuda:1", "mps", "meta", "cpu:1", "x", ""]


def command_option(command: str) -> st.SearchStrategy[tuple[str, ...]]:
    """One option of a ``heed`` command with a valid or invalid value."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action.choices, dict))
    actions = [
        action
        for action in commands.choices[command]._actions
        if action.option_strings and action.dest not in ("help", "comet")
    ]
    return st.sampled_from(actions).flatmap(_with_value)


def _with_value(action: argparse.Action) -> st.SearchStrategy[tuple[str, ...]]:
    name = action.option_strings[-1]
    if action.nargs == 0:
        return st.just((name,))
    texts: Sequence[str] = [*TEXTS, *DEVICES] if action.dest == "device" else TEXTS
    if action.choices:
        texts = [*map(str, action.choices), "x"]
    elif action.type in (int, float):
        texts = [*map(str, NUMBERS), "", "x", "1_0", "0x10"]
    elif action.type is Path:
        texts = [*PATHS, "/dev/full"] if action.dest in OUTPUTS else PATHS
    # As one word, because a separate -1 would be read as an option.
    return st.sampled_from(texts).map(lambda text: (f"{name}={text}",))
