"""Registers heed's sweeper. Hydra 1.3 finds plugins only in this top-level package, and imports it at every start."""

from collections.abc import Sequence
from typing import Any

from hydra.plugins.sweeper import Sweeper

from heed.errors import HeedError, missing_package


class HeedSweeper(Sweeper):
    """Searches the hyperparameters of a study; see `heed.sweep.search`."""

    def __init__(self, params: Any = None) -> None:
        """``params``: what a grid's preset varies, which is a mistake in a search."""
        if params:
            raise HeedError(
                "A grid's preset (experiment=grid…) and sweep= contradict each other: give only one of them."
            )

    def setup(self, **context: Any) -> None:
        self.context = context

    def sweep(self, arguments: Sequence[str]) -> None:
        try:
            from heed.sweep.search import search
        except ModuleNotFoundError as error:
            raise missing_package("A sweep", error.name or "optuna", "sweep") from error
        search(arguments, **self.context)
