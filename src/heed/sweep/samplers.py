"""Samplers of a study: Optuna's, and a grid that several workers share."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from heed.errors import HeedError
from heed.launch.configuration import build_part
from heed.sweep.space import Point

if TYPE_CHECKING:
    from heed.sweep.settings import SweepSettings

MakeSampler = Callable[[int], BaseSampler]
"""Returns a sampler with this seed."""


class GridSampler(BaseSampler):
    """Takes the points of a grid in order: trial by trial, with no point twice on any number of workers.

    Optuna's own grid samplers draw among the points that are left, so two workers may draw the same one.
    """

    def __init__(self, *, points: list[Point], position: Callable[[FrozenTrial], int]) -> None:
        """
        Args:
            points: of the grid.
            position: returns the index of a trial among those of its study.
        """
        self.points, self.position = points, position

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.points[self.position(trial) % len(self.points)][param_name]


def is_grid(settings: "SweepSettings") -> bool:
    """Return whether the study takes every point of a grid."""
    return bool(settings.sampler.get("_target_") == f"{GridSampler.__module__}.{GridSampler.__name__}")


def build_sampler(settings: "SweepSettings") -> MakeSampler:
    """Return the sampler that the settings name; its seed is given later.

    Raises:
        HeedError: if an option is wrong.
    """
    build = build_part({**settings.sampler, "_partial_": True}, where="sweep.sampler.", later=["seed"])
    if not (isinstance(build, partial) and isinstance(build.func, type) and issubclass(build.func, BaseSampler)):
        raise HeedError(f"sweep.sampler._target_={settings.sampler['_target_']} must be a sampler of Optuna.")

    def make(seed: int) -> BaseSampler:
        sampler: BaseSampler = build(seed=seed)
        return sampler

    return make
