"""The options of a study, ``conf/sweep``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heed.errors import HeedError
from heed.options import AtLeast1, validated
from heed.runs.objectives import DIRECTIONS, StudyDirection, check_objectives


@validated("sweep.")
@dataclass(frozen=True, kw_only=True)
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

    objective: str | Sequence[str]
    n_trials: AtLeast1
    space: Mapping[str, Any] | None
    sampler: Mapping[str, Any]
    pruner: Mapping[str, Any] | None
    storage: str | None
    workers: AtLeast1
    confirm: str | None
    compare: str | None
    heartbeat: AtLeast1
    trial: str | None

    def __post_init__(self) -> None:
        names = self.objectives
        check_objectives(names)
        if self.confirm is not None and not re.fullmatch(r"[1-9]\d?x[1-9]\d?", self.confirm):
            raise HeedError(f"sweep.confirm={self.confirm} must be CONFIGURATIONSxSEEDS, such as 3x3, or null.")
        if self.pruner and not (len(names) == 1 and names[0].startswith("valid.")):
            late, several = "is known only at the end of a run, so trials", "names several objectives, which"
            why = several if len(names) > 1 else late
            raise HeedError(f"sweep.objective={','.join(names)} {why} cannot be pruned: add sweep/pruner=none.")
        if (self.compare or self.confirm) and len(names) > 1:
            raise HeedError(
                "sweep.compare and sweep.confirm need one sweep.objective, because several have no single winner: "
                "set both to null."
            )

    @property
    def objectives(self) -> list[str]:
        """The results to optimise."""
        return [self.objective] if isinstance(self.objective, str) else list(self.objective)

    @property
    def directions(self) -> list[StudyDirection]:
        """Which way each objective is better."""
        return [DIRECTIONS[name] for name in self.objectives]

    @property
    def confirmation(self) -> tuple[int, int]:
        """The number of configurations to train again, and of seeds for each."""
        best, _, seeds = (self.confirm or "0x0").partition("x")
        return int(best), int(seeds)
