"""Every option of train.py with its type, and values in its range, at its limits and of other types."""

import json
import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Interval
from hypothesis import strategies as st

from docs import options as page

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
"""Values of any type."""

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


@dataclass(frozen=True)
class Option:
    """An option, the choices of groups that it needs, and its type with its range."""

    name: str
    where: Mapping[str, str]
    hint: Any


def choices() -> dict[str, list[str]]:
    """Return the choices of every group."""
    found: dict[str, list[str]] = {}
    for file in sorted(page.CONF.rglob("*/*.yaml")):
        group = file.parent.relative_to(page.CONF).as_posix()
        # A search runs many runs; tests/sweep breaks its options.
        if not group.startswith(("hydra", "sweep")) and f"{group}={file.stem}" not in EXCLUDED:
            found.setdefault(group, []).append(file.stem)
    return found


def options() -> Iterator[Option]:
    """Yield the options of the root and of every choice."""
    yield from (Option(name, {}, dict) for name in ("logger", "metric"))  # a number or a text in place of a mapping
    yield from _options(page.CONF / "train.yaml", "", {})
    for group, names in choices().items():
        if group not in (*page.AUTOMATIC, *page.OWN_PAGE):
            for name in names:
                yield from _options(page.CONF / group / f"{name}.yaml", group, {**_outer_choice(group), group: name})


def _options(file: Path, group: str, where: Mapping[str, str]) -> Iterator[Option]:
    for name in dict.fromkeys(_names(file)):
        package = (page.read(file).package or group.replace("/", ".")).replace("_global_", "")
        full, hint = f"{package}.{name}".lstrip("."), page.hint(file, name)
        if hint not in (None, Any) and full not in EXCLUDED:
            yield Option(full, where, hint)


def _names(file: Path) -> Iterator[str]:
    """Yield the options of a file and of the files that it starts from."""
    if file.exists():
        yield from (option.name for option in page.read(file).options)
        for parent in page.read(file).parents:
            yield from _names(file.with_stem(parent))


def _outer_choice(group: str) -> dict[str, str]:
    """Return the choice of the outer group that has this inner group: model=rnn for model/attention."""
    outer, _, inner = group.rpartition("/")
    for name in choices()[outer] if outer else []:
        if inner in dict(page.read(page.CONF / outer / f"{name}.yaml").overrides):
            return {outer: name}
    return {}


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
    numbers: st.SearchStrategy[Any] = st.integers(math.ceil(low), min(math.ceil(low) + 9, high))
    if kind is float:
        numbers = st.integers(0, 64).map(lambda n: min(high, low + min(4, high - low) * n / 64))
    return numbers.filter(lambda number: number not in (interval.gt, interval.lt))


def boundary_values(hint: Any) -> st.SearchStrategy[Any]:
    """Values at the limits of the range, just outside it, and far outside it."""
    limits = [limit for mark in _marks(hint) for limit in (mark.ge, mark.gt, mark.lt, mark.le) if limit is not None]
    return st.sampled_from([*(limit + step for limit in limits for step in (-1, -1e-9, 0, 1e-9, 1)), *NUMBERS])


def _marks(hint: Any) -> Iterator[Any]:
    if isinstance(hint, Interval):
        yield hint
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
