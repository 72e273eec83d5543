"""The search space of a study: options with ranges in Hydra's grammar, some of them under a condition."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from heed.errors import HeedError, first_line
from heed.options import format_value

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.distributions import BaseDistribution

Point = dict[str, Any]
"""A value for each option with a range, as far as its condition holds."""

Choose = Callable[[str, "BaseDistribution"], Any]
"""Returns the value of an option with a range."""


@dataclass
class Space:
    """Options with ranges. A branch holds those that apply under a condition, such as ``model=rnn``."""

    ranges: "dict[str, BaseDistribution]" = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    """Options that the space sets to one value."""
    branches: "dict[str, Space]" = field(default_factory=dict)
    """Inner spaces by condition, ``OPTION=VALUE``."""

    texts: dict[str, str] = field(default_factory=dict)
    """Each range as it was written."""

    def to_plain(self) -> dict[str, Any]:
        """Return the space as it was written."""
        branches = {condition: branch.to_plain() for condition, branch in self.branches.items()}
        return {**self.constants, **self.texts, **branches}

    def texts_by_name(self) -> dict[str, str]:
        """Return each range as it was written, under any condition."""
        return {**self.texts, **{k: v for branch in self.branches.values() for k, v in branch.texts_by_name().items()}}

    def names(self) -> list[str]:
        """Return the options with a range, under any condition, once each."""
        inner = [name for branch in self.branches.values() for name in branch.names()]
        return list(dict.fromkeys([*self.ranges, *inner]))

    def without(self, name: str) -> "Space":
        """Return the space without an option, under any condition."""
        return Space(
            {key: value for key, value in self.ranges.items() if key != name},
            {key: value for key, value in self.constants.items() if key != name},
            {condition: branch.without(name) for condition, branch in self.branches.items()},
            {key: text for key, text in self.texts.items() if key != name},
        )

    def overrides(self, choose: Choose, default: Callable[[str], str]) -> list[str]:
        """Return the overrides of one point of the space.

        Args:
            default: returns, as text, the value of an option or group that the space does not set.
        """
        values: dict[str, str] = {}
        spaces = [self]
        while spaces:
            space = spaces.pop(0)
            values |= space.constants
            values |= {name: _to_text(choose(name, range_)) for name, range_ in space.ranges.items()}
            for condition, branch in space.branches.items():
                name, _, value = condition.partition("=")
                if (values[name] if name in values else default(name)) == value:
                    spaces.append(branch)
        return [f"{name}={value}" for name, value in values.items()]

    def points(self, default: Callable[[str], str]) -> Iterator[Point]:
        """Yield every point, in a fixed order.

        Raises:
            HeedError: if a range is continuous.
        """
        indices: list[int] = []
        while True:
            point: Point = {}
            taken: list[tuple[int, int]] = []  # the index of each option's value, and the number of its values

            def choose(name: str, range_: "BaseDistribution") -> Any:
                values = grid_values(name, range_)
                index = indices[len(taken)] if len(taken) < len(indices) else 0  # noqa: B023  # called in this turn
                taken.append((index, len(values)))  # noqa: B023
                point[name] = values[index]  # noqa: B023
                return values[index]

            self.overrides(choose, default)
            yield point
            while taken and taken[-1][0] + 1 == taken[-1][1]:
                taken.pop()
            if not taken:
                return
            indices = [index for index, _ in taken]
            indices[-1] += 1


def suggest_with(trial: "Trial") -> Choose:
    """Return a function that lets the sampler of the trial's study choose."""
    from optuna.distributions import FloatDistribution, IntDistribution

    def suggest(name: str, range_: "BaseDistribution") -> Any:
        if isinstance(range_, FloatDistribution):
            return trial.suggest_float(name, range_.low, range_.high, step=range_.step, log=range_.log)
        if isinstance(range_, IntDistribution):
            return trial.suggest_int(name, range_.low, range_.high, step=range_.step, log=range_.log)
        return trial.suggest_categorical(name, range_.choices)  # type: ignore[attr-defined]

    return suggest


def corners(space: Space, default: Callable[[str], str], *, shift: int) -> Iterator[tuple[Point, list[str]]]:
    """Yield points, with their overrides, that together hold every choice and both ends of every range.

    Args:
        shift: 0 or 1; gives other combinations of the same values.
    """
    conditions = {name.partition("=")[0] for name in _conditions(space)}
    switches = Space({name: range_ for name, range_ in _ranges(space) if name in conditions}, {}, {})
    for switch in switches.points(default) if switches.ranges else [{}]:
        number, count = 0, 1
        while number < count:
            point: Point = {}

            def choose(name: str, range_: "BaseDistribution") -> Any:
                nonlocal count
                ends = _ends(range_)
                count = max(count, len(ends) if name not in conditions else 1)
                index = (number + shift * len(point)) % len(ends)  # noqa: B023
                point[name] = switch.get(name, ends[index])  # noqa: B023
                return point[name]  # noqa: B023

            overrides = space.overrides(choose, default)
            yield point, overrides
            number += 1


def grid_values(name: str, range_: "BaseDistribution") -> list[Any]:
    """Return all values of an option's range.

    Raises:
        HeedError: if it is continuous.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(range_, CategoricalDistribution):
        return list(range_.choices)
    assert isinstance(range_, (IntDistribution, FloatDistribution))
    if range_.step is None:
        raise HeedError(
            f"{name} has a continuous range, which sweep/sampler=grid cannot enumerate: give choice(…) or range(…)."
        )
    count = round((range_.high - range_.low) / range_.step) + 1
    # Rounded, because 0.1 + 2 × 0.1 is not 0.3.
    return [round(range_.low + i * range_.step, 12) for i in range(count)]


def _ends(range_: "BaseDistribution") -> list[Any]:
    from optuna.distributions import CategoricalDistribution

    if isinstance(range_, CategoricalDistribution):
        return list(range_.choices)
    return [range_.low, range_.high]  # type: ignore[attr-defined]


def _ranges(space: Space) -> "Iterator[tuple[str, BaseDistribution]]":
    yield from space.ranges.items()
    for branch in space.branches.values():
        yield from _ranges(branch)


def _conditions(space: Space) -> Iterator[str]:
    for condition, branch in space.branches.items():
        yield condition
        yield from _conditions(branch)


def _to_text(value: Any) -> str:
    # The choices are text in Hydra's grammar already.
    return value if isinstance(value, str) else format_value(value)


# ---- reading


def read_space(node: Any, arguments: Sequence[str]) -> tuple[Space, list[str]]:
    """Return the space of a study, and the overrides that all of its trials share.

    Args:
        node: ``sweep.space`` as plain data: ranges by option, and mappings of further ones by condition.
        arguments: of the command line. A range there replaces that of the space, and a value removes it.

    Raises:
        HeedError: if a range cannot be read, is empty, or if there is none.
    """
    space = _read_mapping(node or {}, "sweep.space")
    fixed = []
    for argument in arguments:
        override = _parse(argument, argument)
        name = override.get_key_element()
        space = space.without(name)
        if override.is_sweep_override():
            space.ranges[name] = _to_distribution(override, argument)
            space.texts[name] = argument.partition("=")[2]
        else:
            fixed.append(argument)
    if not space.names():
        raise HeedError(
            "The search space is empty: give ranges in sweep.space, or on the command line, such as "
            "model.dropout='interval(0.1,0.4)'."
        )
    return space, fixed


def _read_mapping(node: Mapping[str, Any], where: str) -> Space:
    space = Space()
    for name, value in node.items():
        if isinstance(value, Mapping):
            if not all(name.partition("=")):
                raise HeedError(f"{where}: {name} must be a condition such as model=rnn, because it holds ranges.")
            space.branches[name] = _read_mapping(value, f"{where}, {name}")
            continue
        text = value if isinstance(value, str) else format_value(value)
        override = _parse(f"{name}={text}", where)
        if override.is_sweep_override():
            space.ranges[name] = _to_distribution(override, where)
            space.texts[name] = text
        else:
            space.constants[name] = text
    return space


def _parse(text: str, where: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise HeedError(f"{where}: {text} cannot be read: {first_line(error)}.") from error


def _to_distribution(override: Override, where: str) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value: Any = override.value()
    try:
        if override.is_interval_sweep():
            whole = isinstance(value.start, int) and isinstance(value.end, int)
            kind = IntDistribution if whole else FloatDistribution
            return kind(value.start, value.end, log="log" in value.tags)
        if override.is_range_sweep():
            values = list(value.range())
            if not values:
                raise ValueError("the range is empty")
            kind = IntDistribution if isinstance(values[0], int) else FloatDistribution
            return kind(min(values), max(values), step=abs(value.step), log="log" in value.tags)
        return CategoricalDistribution(list(override.sweep_string_iterator()))
    except ValueError as error:
        raise HeedError(f"{where}: {override.input_line} is no range: {first_line(error)}.") from error
