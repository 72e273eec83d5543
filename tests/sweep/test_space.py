"""The search space: Hydra's grammar, conditions, grids, what is refused, and every search of conf/sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from heed.errors import HeedError
from heed.launch.compose import Command
from heed.launch.plan import check_options
from heed.options import get_option
from heed.sweep.plan import GRID_SAMPLER, SweepSettings, build_pruner, build_sampler
from heed.sweep.space import Option, Space, ends, grid_values, read_space


def no_default(name: str) -> str:
    raise AssertionError(f"{name} has no default here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval(0.1, 0.4)", FloatDistribution(0.1, 0.4)),
        ("tag(log, interval(1e-4, 1e-2))", FloatDistribution(1e-4, 1e-2, log=True)),
        ("int(interval(1, 8))", IntDistribution(1, 8)),
        ("tag(log, int(interval(1, 64)))", IntDistribution(1, 64, log=True)),
        ("range(1, 6)", IntDistribution(1, 5)),
        ("range(2, 9, 2)", IntDistribution(2, 8, step=2)),
        ("range(0, 0.35, 0.1)", FloatDistribution(0.0, 0.3, step=0.1)),
        ("choice(a, b)", CategoricalDistribution(["a", "b"])),
        ("pre,post", CategoricalDistribution(["pre", "post"])),
        ("choice([0.9,0.98], [0.9,0.999])", CategoricalDistribution(["[0.9,0.98]", "[0.9,0.999]"])),
    ],
)
def test_hydras_grammar(text: str, expected: object) -> None:
    space, fixed = read_space({"x": text}, [])
    assert space.ranges == {"x": expected}
    assert fixed == []
    assert read_space({}, [f"x={text}"])[0].ranges == {"x": expected}


def test_a_condition_adds_ranges_and_constants() -> None:
    space, _ = read_space(
        {
            "model": "choice(rnn, transformer)",
            "model=rnn": {"model.dropout": "interval(0.2, 0.6)", "experiment": "quick_rnn"},
            "model=transformer": {"model.num_heads": "choice(4, 8)"},
        },
        [],
    )
    points = {
        "rnn": {"model": "rnn", "model.dropout": 0.25},
        "transformer": {"model": "transformer", "model.num_heads": "8"},
    }
    found = {family: space.resolve(point, no_default)[0] for family, point in points.items()}
    assert found == {
        "rnn": ["model=rnn", "model.dropout=0.25", "experiment=quick_rnn"],
        "transformer": ["model=transformer", "model.num_heads=8"],
    }
    assert [*space.ranges] == ["model", "model.dropout", "model.num_heads"]


def test_a_condition_on_an_option_outside_the_space() -> None:
    space, _ = read_space({"model=rnn": {"model.dropout": "choice(0.1, 0.2)"}, "seed": "choice(1, 2)"}, [])
    point = {"seed": "1", "model.dropout": "0.1"}
    taken = [space.resolve(point, lambda _, f=family: f) for family in ("rnn", "other")]  # type: ignore[misc]
    assert taken == [(["seed=1", "model.dropout=0.1"], None), (["seed=1"], None)]


def test_the_command_line_replaces_ranges() -> None:
    node = {"a": "choice(1, 2)", "model=rnn": {"b": "choice(1, 2)", "c": "choice(1, 2)"}}
    space, fixed = read_space(node, ["a=3", "b=interval(0, 1)", "seed=7"])
    assert fixed == ["a=3", "seed=7"]
    assert [*space.ranges] == ["b", "c"]
    assert space.ranges["b"] == FloatDistribution(0.0, 1.0)
    assert [option.conditions for option in space.options] == [(), ("model=rnn",)]
    assert space.to_plain() == {"b": "interval(0, 1)", "c if model=rnn": "choice(1, 2)"}


def test_points_enumerates_a_conditional_grid() -> None:
    space, _ = read_space(
        {"m": "choice(a, b)", "m=a": {"x": "range(1, 4)"}, "m=b": {"y": "range(0, 0.4, 0.2)", "z": "choice(u, v)"}}, []
    )
    points = list(space.points(grid_values, no_default))
    assert points == [
        {"m": "a", "x": 1},
        {"m": "a", "x": 2},
        {"m": "a", "x": 3},
        {"m": "b", "y": 0.0, "z": "u"},
        {"m": "b", "y": 0.0, "z": "v"},
        {"m": "b", "y": 0.2, "z": "u"},
        {"m": "b", "y": 0.2, "z": "v"},
    ]


def test_a_grid_refuses_a_continuous_range() -> None:
    space, _ = read_space({"x": "interval(0, 1)"}, [])
    with pytest.raises(HeedError, match="x has a continuous range"):
        list(space.points(grid_values, no_default))


@pytest.mark.parametrize(
    ("node", "arguments", "message"),
    [
        ({}, ["seed=1"], "The search space is empty"),
        ({"x": "interval(0.1"}, [], "sweep.space: x=interval.0.1 cannot be read"),
        ({"x": "intervall(0.1, 0.2)"}, [], "sweep.space: x=intervall"),
        ({"x": "interval(0.4, 0.1)"}, [], "x=interval.0.4, 0.1. is not a range"),
        ({"x": "range(5, 1)"}, [], "the range is empty"),
        ({"x": "tag(log, interval(0, 1))"}, [], "x=tag.log, interval.0, 1.. is not a range"),
        ({"model": {"x": "choice(1, 2)"}}, [], "model must be a condition such as model=rnn"),
        ({"model=rnn": {"x": "interval(2, 1)"}}, [], "sweep.space, model=rnn: x="),
    ],
)
def test_what_is_refused(node: dict[str, object], arguments: list[str], message: str) -> None:
    with pytest.raises(HeedError, match=message):
        read_space(node, arguments)


def test_a_value_is_no_range() -> None:
    assert Space([Option("x", "1")]).ranges == {}


def test_options_come_after_those_they_depend_on() -> None:
    """In whatever order they are written."""
    space, _ = read_space({"m=a": {"n": "choice(1, 2)", "n=1": {"x": "choice(3, 4)"}}, "m": "choice(a, b)"}, [])
    points = list(space.points(grid_values, no_default))
    assert points == [{"m": "a", "n": "1", "x": "3"}, {"m": "a", "n": "1", "x": "4"}, {"m": "a", "n": "2"}, {"m": "b"}]
    assert space.to_plain() == {"m": "choice(a, b)", "n if m=a": "choice(1, 2)", "x if m=a and n=1": "choice(3, 4)"}


CONF = Path(__file__).parents[2] / "conf/sweep"
Compose = Callable[..., Any]


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def settings_of(command: Command) -> SweepSettings:
    return SweepSettings(**command.sweep)


@pytest.mark.parametrize(
    "name",
    [
        name if name == "smoke" else pytest.param(name, marks=pytest.mark.full)
        for name in names(CONF)
        if name != "default"
    ],
)
def test_all_first_and_all_last_values_of_a_space_are_valid_runs(compose: Compose, name: str) -> None:
    command = compose(f"sweep={name}")
    settings = settings_of(command)
    build_sampler(settings, seed=1)
    build_pruner(settings)

    def default(option: str) -> str:
        return str(command.choices.get(option, get_option(command.options, option)))

    space, _ = read_space(settings.space, [])
    for end in (0, -1):
        point = next(space.points(lambda option: [ends(option)[end]], default))  # noqa: B023
        check_options(compose(f"sweep={name}", *space.resolve(point, default)[0]).options)


@pytest.mark.parametrize("name", names(CONF / "sampler"))
def test_samplers(compose: Compose, name: str) -> None:
    settings = settings_of(compose("sweep=default", f"sweep/sampler={name}"))
    assert (settings.sampler["_target_"] == GRID_SAMPLER) == (name == "grid")
    build_sampler(settings, seed=1)


@pytest.mark.parametrize("name", names(CONF / "pruner"))
def test_pruners(compose: Compose, name: str) -> None:
    pruner = build_pruner(settings_of(compose("sweep=default", f"sweep/pruner={name}")))
    assert (type(pruner).__name__ == "NopPruner") == (name == "none")
