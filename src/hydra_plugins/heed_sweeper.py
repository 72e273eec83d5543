"""Registers heed's sweeper. Hydra 1.3 finds plugins only in this top-level package, and imports it at every start."""

from collections.abc import Sequence
from typing import Any

from hydra.plugins.sweeper import Sweeper


class HeedSweeper(Sweeper):
    """Searches the hyperparameters of a study; see `heed.sweep.search`."""

    def setup(self, **context: Any) -> None:
        self.context = context

    def sweep(self, arguments: Sequence[str]) -> None:
        from heed.sweep.search import search

        search(arguments, **self.context)
