"""The options of a study, ``conf/sweep``."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from heed.errors import HeedError
from heed.options import AtLeast1, validated
from heed.runs.objectives import DIRECTIONS, StudyDirection, check_objectives


@validated("sweep.")
class SweepSettings:
    """What a study optimises, in which space and how.

    Args:
        objective: a result of each run to optimise, such as ``valid.bleu``, or a list of several.
        n_trials: trials of the whole study that end complete or pruned, over all workers and all times.
        space: ranges by option; see `heed.sweep.space`.
        sampler: an Optuna sampler as a ``_target_``, which chooses the values of a trial.
        pruner: an Optuna pruner as a ``_target_``, which ends trials early; None: no trial ends early.
        storage: URL of an Optuna storage for several machines; None: a SQLite file in the folder of the study.
        workers: processes on this machine.
        confirm: "3x2" trains the 3 best configurations again, with 2 other seeds each; None: no confirmation.
        compare: an option whose values get equally many trials and separate searches, such as ``model``.
        heartbeat: seconds between two heartbeats of a trial. After three missed heartbeats it counts as dead.
        trial: set by the search in the runs of a study.
    """

    def __init__(
        self,
        *,
        objective: str | Sequence[str],
        n_trials: AtLeast1,
        space: Mapping[str, Any] | None,
        sampler: Mapping[str, Any],
        pruner: Mapping[str, Any] | None,
        storage: str | None,
        workers: AtLeast1,
        confirm: str | None,
        compare: str | None,
        heartbeat: AtLeast1,
        trial: str | None,
    ) -> None:
        self.objectives = [objective] if isinstance(objective, str) else list(objective)
        check_objectives(self.objectives)
        self.n_trials, self.space, self.sampler, self.pruner = n_trials, space, sampler, pruner
        self.storage, self.workers, self.compare, self.heartbeat, self.trial = (
            storage, workers, compare, heartbeat, trial,
        )  # fmt: skip
        self.best, self.seeds = _parse_confirm(confirm)
        if pruner:
            self._check_pruning()
        if (compare or confirm) and len(self.objectives) > 1:
            raise HeedError(
                "sweep.compare and sweep.confirm need one sweep.objective, because several have no single winner: "
                "set both to null."
            )

    @property
    def directions(self) -> list[StudyDirection]:
        """Which way each objective is better."""
        return [DIRECTIONS[name] for name in self.objectives]

    def _check_pruning(self) -> None:
        if len(self.objectives) > 1:
            raise HeedError(
                f"sweep.objective={','.join(self.objectives)} names several objectives, which cannot be pruned: "
                "add sweep/pruner=none."
            )
        if not self.objectives[0].startswith("valid."):
            raise HeedError(
                f"sweep.objective={self.objectives[0]} is known only at the end of a run, so trials cannot be pruned: "
                "add sweep/pruner=none."
            )


def _parse_confirm(text: str | None) -> tuple[int, int]:
    """Return the number of configurations and of seeds in "3x2"; (0, 0) for None."""
    if text is None:
        return 0, 0
    if not (match := re.fullmatch(r"([1-9]\d?)x([1-9]\d?)", text)):
        raise HeedError(f"sweep.confirm={text} must be CONFIGURATIONSxSEEDS, such as 3x3, or null.")
    return int(match[1]), int(match[2])
