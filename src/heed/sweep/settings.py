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
    """What a study optimises, in which space and how. conf/sweep/default.yaml describes the options."""

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
            are = "are several objectives, so" if len(names) > 1 else "is known only at the end of a run, so"
            raise HeedError(f"sweep.objective={','.join(names)} {are} trials cannot be pruned: add sweep/pruner=none.")
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
