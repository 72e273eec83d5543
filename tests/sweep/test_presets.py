"""Every search of conf/sweep: its space makes valid runs, its sampler and its pruner can be built."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heed.launch.compose import Command
from heed.launch.plan import check_options
from heed.options import get_option
from heed.sweep.plan import GRID_SAMPLER, SweepSettings, build_pruner, build_sampler
from heed.sweep.space import ends, read_space

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
