"""Parse the command line of a search: its options, its space, and its studies."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BaseSampler

from heed.errors import HeedError
from heed.launch.compose import Command, to_command
from heed.launch.parts import build_part
from heed.launch.plan import check_options
from heed.options import AtLeast1, did_you_mean, format_value, validated
from heed.sweep.space import UntriedSampler, ends, grid_values, read_space
from heed.sweep.study import STUDY_FORMAT, quiet

OBJECTIVES = (
    "valid.bleu", "valid.chrf", "valid.loss", "tokens_per_second", "train_seconds", "decode_seconds.valid", "params"
)  # fmt: skip
"""What a search can optimize, by its path in results.json."""
MAXIMIZED = ("valid.bleu", "valid.chrf", "tokens_per_second")
WORKER_OPTIONS = ("sweep.", "cache_dir=", "data.root=", "logger=", "trainer=", "trainer.devices=")
"""Options that may differ between the workers of a study."""
GRID_SAMPLER = "optuna.samplers.BruteForceSampler"
"""The sampler of sweep/sampler=grid. heed enumerates the points itself (`UntriedSampler`), to know their number."""


@validated("sweep.")
@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """The options of a search, described in conf/sweep/default.yaml."""

    objective: str
    n_trials: AtLeast1
    space: Mapping[str, Any] | None
    sampler: Mapping[str, Any]
    pruner: Mapping[str, Any] | None
    workers: AtLeast1
    confirm: str | None
    heartbeat: AtLeast1
    trial: str | None

    def __post_init__(self) -> None:
        name = self.objective
        if name.startswith("test"):
            raise HeedError(f"sweep.objective={name} would choose by the test set: optimise valid.bleu instead.")
        if name not in OBJECTIVES:
            close = did_you_mean(name, OBJECTIVES, "sweep.objective=")
            raise HeedError(f"sweep.objective={name} is unknown{close}: choose from {', '.join(OBJECTIVES)}.")
        if self.confirm is not None and not re.fullmatch(r"[1-9]\d?x[1-9]\d?", self.confirm):
            raise HeedError(f"sweep.confirm={self.confirm} must be CONFIGURATIONSxSEEDS, such as 3x3, or null.")
        if self.pruner and not name.startswith("valid."):
            raise HeedError(
                f"sweep.objective={name} is known only at the end of a run, so trials cannot be pruned: add "
                "sweep/pruner=none."
            )


class Plan:
    """A search, parsed from the command line."""

    def __init__(self, arguments: Sequence[str], *, config: Any, config_loader: Any) -> None:
        """Parse the ``arguments`` of `search`; raise a HeedError if an option or the space is wrong."""
        if (launcher := config.hydra.runtime.choices.get("hydra/launcher", "basic")) != "basic":
            raise HeedError(
                f"hydra/launcher={launcher} is for grids: a search runs its trials itself. Give it several "
                "devices in one job, with sweep.workers=N."
            )
        self.config, self._config_loader = config, config_loader
        options: Any = OmegaConf.to_container(config.sweep, resolve=True)
        self.settings = SweepSettings(**options)
        self.folder = Path(config.hydra.sweep.dir)
        self.name = self.folder.name
        self.maximize = self.settings.objective in MAXIMIZED
        best, _, seeds = (self.settings.confirm or "0x0").partition("x")
        self.count, first = int(best), int(config.seed) + 1  # the search itself uses the seed
        self.seeds = range(first, first + int(seeds))
        """The ``count`` best configurations are trained again with these seeds."""
        self.space, self.fixed = read_space(self.settings.space, arguments)
        """``fixed`` are the overrides that all trials share."""
        self.pruner = build_pruner(self.settings)
        build_sampler(self.settings, seed=0)
        self.is_grid = self.settings.sampler.get("_target_") == GRID_SAMPLER
        grid = self.is_grid and list(self.space.points(grid_values, self.default))
        self.points = grid or self.space.finite_points(self.default)
        """All points of a finite space: none is tried twice. Of an infinite space: empty."""

    def default(self, name: str) -> str:
        """Return the value of an option or group that the space does not set, as text."""
        choices = self.config.hydra.runtime.choices
        return str(choices[name]) if name in choices else format_value(OmegaConf.select(self.config, name))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the study. A worker with other attributes cannot join it."""
        return {
            "format": STUDY_FORMAT,
            "objective": self.settings.objective,
            "space": self.space.to_plain(),
            "fixed": [word for word in self.fixed if not word.startswith(WORKER_OPTIONS)],
            "n_trials": len(self.points) if self.is_grid else self.settings.n_trials,
            "points": len(self.points) or None,
            "pruner": type(self.pruner).__name__ if self.settings.pruner else None,
        }

    def compose(self, overrides: Sequence[str]) -> Command:
        """Return what a run with these overrides would train."""
        cfg = self._config_loader.load_sweep_config(self.config, [*self.fixed, *overrides])
        return to_command(cfg)

    def check_space(self) -> None:
        """Compose every option and choice of a group, and make a dry run of all first and of all last values.

        A trial with another value that makes no valid run fails.

        Raises:
            HeedError: if the options do not compose, or neither dry run succeeds.
        """
        for option in self.space.options:
            is_group = "/" in option.name or option.name in self.config.hydra.runtime.choices
            for value in ends(option) if is_group else ends(option)[:1]:
                self.compose([*option.conditions, f"{option.name}={value}"])
        errors = []
        for end in (0, -1):
            point = next(self.space.points(lambda option: [ends(option)[end]], self.default))  # noqa: B023
            try:
                check_options(self.compose(self.space.resolve(point, self.default)[0]).options)
            except HeedError as error:
                errors.append(error)
        if len(errors) == 2:
            raise errors[0]

    def make_sampler(self, number: int) -> BaseSampler:
        """Return the sampler of trial ``number``. Each has its own seed, or workers would draw the same values."""
        sampler = None
        if not self.is_grid:
            sampler = build_sampler(self.settings, seed=(self.config.seed * 1_000_003 + number) % 2**32)
        return UntriedSampler(self.points, sampler) if self.points else cast("BaseSampler", sampler)


def build_sampler(settings: SweepSettings, *, seed: int) -> BaseSampler:
    """Return the sampler that the settings name; raise a HeedError if an option is wrong."""
    return _build("sampler", {**settings.sampler, "seed": seed}, BaseSampler)


def build_pruner(settings: SweepSettings) -> BasePruner:
    """Return the pruner that the settings name; raise a HeedError if an option is wrong."""
    return _build("pruner", settings.pruner, BasePruner) if settings.pruner else NopPruner()


def _build(name: str, options: Mapping[str, Any], base: type) -> Any:
    with quiet():
        part = build_part(options, where=f"sweep.{name}.")
    if not isinstance(part, base):
        raise HeedError(f"sweep.{name}._target_={options['_target_']} must be a {name} of Optuna.")
    return part
