"""The search space of a study: options with ranges in Hydra's grammar, optionally under conditions."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from optuna import Study, Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from heed.errors import HeedError, first_line
from heed.options import format_value

Point = dict[str, Any]
"""A value for each option with a range whose conditions hold."""

Default = Callable[[str], str]
"""Returns the value of an option or group that the space does not set, as text."""


DECIMALS = 12
"""Decimal places of the values of a range with steps: 0.1 + 2 × 0.1 is not 0.3."""
MOST_POINTS = 10_000
"""A space with more points counts as infinite: its points are not listed, and a sampler may draw one twice."""


@dataclass(frozen=True)
class Option:
    """An option of a search space: a range, or a single value that the space sets."""

    name: str
    text: str  # as it was written
    range: BaseDistribution | None = None
    conditions: tuple[str, ...] = ()  # ``OPTION=VALUE``, such as ``model=rnn``; all must hold for the option to apply


class Space:
    """The options of a search. Options with conditions come after those that they depend on."""

    def __init__(self, options: Iterable[Option]) -> None:
        self.options = sorted(options, key=lambda option: len(option.conditions))

    @property
    def ranges(self) -> dict[str, BaseDistribution]:
        """The options with a range, under any condition."""
        return {option.name: option.range for option in self.options if option.range is not None}

    def finite_points(self, default: Default) -> list[Point]:
        """Return all points, or none if a range is continuous or there are more than `MOST_POINTS`."""
        if any(isinstance(range_, FloatDistribution) and range_.step is None for range_ in self.ranges.values()):
            return []
        points = list(islice(self.points(grid_values, default), MOST_POINTS + 1))
        return points if len(points) <= MOST_POINTS else []

    def to_plain(self) -> dict[str, str]:
        """Return the ranges as written, by option: ``model.dropout`` or ``model/attention if model=rnn``."""
        return {" if ".join(filter(None, (one.name, " and ".join(one.conditions)))): one.text for one in self.options}

    def resolve(self, point: Point, default: Default) -> tuple[list[str], Option | None]:
        """Return the overrides of a point, and the first applicable option without a value, if any."""
        values: dict[str, str] = {}
        for option in self.options:
            names = {condition: condition.partition("=")[0] for condition in option.conditions}
            if not all(f"{n}={values[n] if n in values else default(n)}" == one for one, n in names.items()):
                continue
            if option.range is not None and option.name not in point:
                return [], option
            values[option.name] = option.text if option.range is None else _to_text(point[option.name])
        return [f"{name}={value}" for name, value in values.items()], None

    def points(self, values: Callable[[Option], Sequence[Any]], default: Default) -> Iterator[Point]:
        """Yield every combination of the ``values`` of the options, in a fixed order."""
        points: list[Point] = [{}]
        while points:
            point = points.pop()
            if option := self.resolve(point, default)[1]:
                points += [{**point, option.name: value} for value in reversed(values(option))]
            else:
                yield point


class UntriedSampler(BaseSampler):
    """Draws as another sampler does, but no point of a finite space twice; without another one, all points in order."""

    def __init__(self, points: Sequence[Point], sampler: BaseSampler | None) -> None:
        self._points, self._sampler, self._drawn = points, sampler, Point()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the options that the other sampler draws together."""
        return self._sampler.infer_relative_search_space(study, trial) if self._sampler else {}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> Point:
        """Keep what the other sampler draws for `sample_independent`, which may have to replace it."""
        self._drawn = self._sampler.sample_relative(study, trial, search_space) if self._sampler else {}
        return {}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        """Return what the other sampler draws, or another value if no untried point has it."""
        tried = [_rounded(each.params) for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        begun = _rounded(trial.params).items()
        untried = [point for point in self._points if param_name in point and begun <= point.items()]
        values = [point[param_name] for point in untried if point not in tried]
        if self._sampler is None:
            return values[0]
        value = self._drawn.get(param_name)
        if value is None:
            value = self._sampler.sample_independent(study, trial, param_name, param_distribution)
        is_free = not values or _rounded({param_name: value})[param_name] in values
        return value if is_free else random.Random(trial.number).choice(values)


def _rounded(point: Point) -> Point:
    return {name: round(value, DECIMALS) if isinstance(value, float) else value for name, value in point.items()}


def draw(space: Space, trial: Trial, default: Default) -> list[str]:
    """Let the study's sampler choose a point, and return its overrides."""
    point: Point = {}
    while option := space.resolve(point, default)[1]:
        name, range_ = option.name, option.range
        if isinstance(range_, FloatDistribution | IntDistribution):
            suggest: Any = trial.suggest_int if isinstance(range_, IntDistribution) else trial.suggest_float
            value = suggest(name, range_.low, range_.high, step=range_.step, log=range_.log)
            point[name] = value if range_.step is None else round(value, DECIMALS)
        else:
            point[name] = trial.suggest_categorical(name, range_.choices)  # type: ignore[union-attr]
    return space.resolve(point, default)[0]


def grid_values(option: Option) -> list[Any]:
    """Return all values of an option's range; raise a HeedError if it is continuous."""
    if not isinstance(option.range, (IntDistribution, FloatDistribution)):
        return ends(option)
    low, high, step = option.range.low, option.range.high, option.range.step
    if step is None:
        raise HeedError(
            f"{option.name} has a continuous range, and sweep/sampler=grid cannot enumerate it: give choice(…) or "
            "range(…)."
        )
    return [round(low + i * step, DECIMALS) for i in range(round((high - low) / step) + 1)]


def ends(option: Option) -> list[Any]:
    """Return the choices of an option, or both ends of its range; of an option without a range, its value."""
    range_: Any = option.range
    if range_ is None:
        return [option.text]
    return list(range_.choices) if isinstance(range_, CategoricalDistribution) else [range_.low, range_.high]


def _to_text(value: Any) -> str:
    # Choices are already text in Hydra's grammar.
    return value if isinstance(value, str) else format_value(value)


# ---- reading


def read_space(node: Any, arguments: Sequence[str]) -> tuple[Space, list[str]]:
    """Return the space of a study, and the overrides that all trials share.

    Args:
        node: ``sweep.space`` as plain data: ranges by option, and mappings of more ranges by condition.
        arguments: overrides of the command line. They replace the ranges in ``node``.

    Raises:
        HeedError: if there is no range, or a range is empty or cannot be read.
    """
    options, fixed = [*_read_options(node or {}, "sweep.space")], []
    for argument in arguments:
        option = _read_option(argument, argument)
        options = [each for each in options if each.name != option.name]
        if option.range is None:
            fixed.append(argument)
        else:
            options.append(option)
    space = Space(options)
    if not space.ranges:
        raise HeedError(
            "The search space is empty: give ranges in sweep.space, or on the command line, such as "
            "model.dropout='interval(0.1,0.4)'."
        )
    return space, fixed


def _read_options(node: Mapping[str, Any], where: str, conditions: tuple[str, ...] = ()) -> Iterator[Option]:
    for name, value in node.items():
        if not isinstance(value, Mapping):
            yield _read_option(f"{name}={_to_text(value)}", where, conditions)
        elif all(name.partition("=")):
            yield from _read_options(value, f"{where}, {name}", (*conditions, name))
        else:
            raise HeedError(f"{where}: {name} must be a condition such as model=rnn, because it holds ranges.")


def _read_option(text: str, where: str, conditions: tuple[str, ...] = ()) -> Option:
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise HeedError(f"{where}: {text} cannot be read: {first_line(error)}.") from error
    range_ = _to_distribution(override, where) if override.is_sweep_override() else None
    return Option(override.get_key_element(), text.partition("=")[2], range_, conditions)


def _to_distribution(override: Override, where: str) -> BaseDistribution:
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
        raise HeedError(f"{where}: {override.input_line} is not a range: {first_line(error)}.") from error
