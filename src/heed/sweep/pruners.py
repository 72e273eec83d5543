"""Pruners of a study, which end trials early: Optuna's."""

from typing import TYPE_CHECKING

import optuna

from heed.errors import HeedError
from heed.launch.configuration import build_part

if TYPE_CHECKING:
    from heed.sweep.settings import SweepSettings


def build_pruner(settings: "SweepSettings") -> optuna.pruners.BasePruner:
    """Return the pruner that the settings name.

    Raises:
        HeedError: if an option is wrong.
    """
    if not settings.pruner:
        return optuna.pruners.NopPruner()
    pruner = build_part(settings.pruner, where="sweep.pruner.")
    if not isinstance(pruner, optuna.pruners.BasePruner):
        raise HeedError(f"sweep.pruner._target_={settings.pruner['_target_']} must be a pruner of Optuna.")
    return pruner
