"""A study that several workers share: its storage, its budget, trials whose worker died, and its summary."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import optuna
import yaml
from filelock import FileLock
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from heed.errors import HeedError, first_line
from heed.options import format_value
from heed.report.sweep import StudySummary, TrialSummary, Verdict

STUDY_FORMAT = 5  # of the attributes of a study
STUDY_FILE = "study.db"  # SQLite database of the trials, in the folder of the study
ATTRIBUTES = "heed"
"""The user attribute of a study that holds its description."""
MISSED_HEARTBEATS = 3  # after which a trial counts as dead
MAX_DEATHS = 3  # of workers, after which their trial is not restarted: it may be the cause


def lock(folder: Path) -> FileLock:
    """Return the lock that a worker of a study holds while it claims a trial or writes the verdict."""
    return FileLock(folder / ".study.lock")


def quiet() -> AbstractContextManager[None]:
    """Suppress Optuna's warnings about experimental interfaces and about heartbeats outside Study.optimize."""
    return warnings.catch_warnings(action="ignore")


# ---- the storage


def open_storage(folder: Path, *, heartbeat: int | None = None) -> RDBStorage:
    """Open the Optuna storage in the folder of a study.

    Args:
        heartbeat: seconds between two heartbeats of a trial. Missing tables are created. None: open an existing storage
            for reading.

    Raises:
        HeedError: if there is nothing to read, or the file is not an Optuna storage.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file = folder.resolve() / STUDY_FILE
    if heartbeat is None and not file.is_file():
        raise HeedError(f"There is no study {file}: give its folder, such as runs/NAME.")

    def connect() -> RDBStorage:
        return RDBStorage(
            f"sqlite:///{file}",
            engine_kwargs={"connect_args": {"timeout": 60}},  # retry a busy file for a minute
            heartbeat_interval=heartbeat,
            grace_period=heartbeat and MISSED_HEARTBEATS * heartbeat,
            heartbeat_stale_trial_callback=_retry(MAX_DEATHS),
            skip_table_creation=heartbeat is None,
        )

    try:
        with quiet():
            try:
                return connect()
            except DBAPIError:  # another worker may be creating the tables
                time.sleep(1)
                return connect()
    # RuntimeError: another version of Optuna wrote the tables.
    except (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise HeedError(f"{file} cannot be used as an Optuna study: {first_line(cause)}.") from error


# ---- the study


class SharedStudy:
    """An Optuna study with a budget of trials that its workers claim one by one.

    The best trials are repeated with other seeds in the same study. These trials have the user attribute ``confirms``,
    and do not count as trials of the search.
    """

    def __init__(self, study: optuna.Study, attributes: Mapping[str, Any]) -> None:
        """Wrap a study with its attributes: ``n_trials``, and the number of ``points`` of a finite space."""
        self.study, self.attributes = study, attributes
        self.points = attributes["points"] or math.inf
        self.budget = int(min(attributes["n_trials"], self.points))

    @classmethod
    def join(
        cls,
        storage: RDBStorage,
        name: str,
        attributes: Mapping[str, Any],
        *,
        maximize: bool,
        pruner: optuna.pruners.BasePruner,
    ) -> "SharedStudy":
        """Create or join the study; raise a HeedError if attributes other than n_trials differ."""
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize" if maximize else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )
        existing = study.user_attrs.get(ATTRIBUTES, {})
        for key in (attributes.keys() if existing else set()) - {"n_trials"}:
            if existing.get(key) != attributes[key]:
                raise HeedError(
                    f"The study {name} exists with another {key}: {format_value(existing.get(key))} there, "
                    f"{format_value(attributes[key])} now. Give the same options to continue it, or another name=NAME."
                )
        if existing.get("n_trials") != attributes["n_trials"]:
            study.set_user_attr(ATTRIBUTES, dict(attributes))
        return cls(study, attributes)

    def all_trials(self) -> list[TrialSummary]:
        """Return the trials, each with all its attempts: those of the search and those with other seeds."""
        attempts: dict[int, list[FrozenTrial]] = {}
        for trial in self.study.get_trials(deepcopy=False):
            attempts.setdefault(original_number(trial), []).append(trial)
        return [_summarize(chain) for chain in attempts.values()]

    def trials(self) -> list[TrialSummary]:
        """Return the trials of the search."""
        return [trial for trial in self.all_trials() if trial.confirms is None]

    def verdict(self) -> Verdict | None:
        """Return the verdict on the best trials, or None if it has not been written."""
        written = self.study.user_attrs.get("verdict")
        return Verdict(**written) if written else None

    def left(self) -> int:
        """Return how many new trials may start. One that failed does not count, but its point is tried."""
        trials = self.trials()
        counted = sum(not trial.reason for trial in trials)
        return int(max(min(self.budget - counted, self.points - len(trials)), 0))

    def is_finished(self) -> bool:
        """Return whether the budget is used up and no trial is running or waiting."""
        return not self.left() and all(trial.state not in ("running", "waiting") for trial in self.all_trials())

    def confirm(self, trial: TrialSummary, seed: int) -> None:
        """Queue a trial again with another seed."""
        self.study.enqueue_trial(dict(trial.params), user_attrs={"confirms": [trial.number, seed]})

    def claim(self, make_sampler: Callable[[int], BaseSampler], draw: Callable[[Trial], Sequence[str]]) -> Trial | None:
        """Claim a trial to continue or, if there is none, a new trial. The caller must hold the `lock`.

        Args:
            make_sampler: maps the number of attempts so far to the sampler for a new trial.
            draw: draws the parameters of a new trial, and returns the overrides of its run.

        Returns:
            The trial, with its ``overrides`` and its ``folder`` as user attributes; None if the budget is used up.
        """
        storage: Any = self.study._storage
        with quiet():
            fail_stale_trials(self.study)
            for dead in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                if "folder" not in dead.user_attrs:  # its worker died in this method
                    self.release(dead._trial_id)
            waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting and not self.left():
                return None
            self.study.sampler = make_sampler(len(self.study.get_trials(deepcopy=False)))
            trial = self.study.ask()
            storage.record_heartbeat(trial._trial_id)
            if "folder" not in trial.user_attrs:
                number, seed = trial.user_attrs.get("confirms", (None, None))
                found = original_number(storage.get_trial(trial._trial_id))
                overrides = [*draw(trial), *([] if seed is None else [f"seed={seed}"])]
                trial.set_user_attr("overrides", overrides)
                trial.set_user_attr("folder", str(found) if seed is None else f"confirm/{number}_seed{seed}")
            return trial

    def fail(self, trial: Trial, reason: str) -> None:
        """Mark a trial as failed with a reason, so that it is not continued."""
        with suppress(UpdateFinishedTrialError):  # another worker has taken it over
            trial.set_user_attr("reason", reason)
            self.study.tell(trial, state=TrialState.FAIL)

    def release(self, trial_id: int) -> None:
        """Queue a running trial whose worker stops or died, so that another worker continues it."""
        storage = self.study._storage
        with suppress(UpdateFinishedTrialError), quiet():  # another worker was faster
            if storage.set_trial_state_values(trial_id, state=TrialState.FAIL):
                _retry(None)(self.study, storage.get_trial(trial_id))


def _retry(times: int | None) -> RetryHeartbeatStaleTrialCallback:
    return RetryHeartbeatStaleTrialCallback(max_retry=times, inherit_intermediate_values=True)


def original_number(trial: FrozenTrial) -> int:
    """Return the number of a trial's first attempt."""
    with quiet():
        number = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
    return trial.number if number is None else number


def _summarize(attempts: Sequence[FrozenTrial]) -> TrialSummary:
    last = attempts[-1]
    # A resumed trial continues from a checkpoint: its curve starts with an earlier attempt.
    curve = {step: value for attempt in attempts for step, value in attempt.intermediate_values.items()}
    attributes = {name: value for attempt in attempts for name, value in attempt.user_attrs.items()}
    is_failed = last.state == TrialState.FAIL
    return TrialSummary(
        number=attempts[0].number,
        state="failed" if is_failed else last.state.name.lower(),  # type: ignore[arg-type]
        value=math.nan if last.value is None or is_failed or not last.state.is_finished() else last.value,
        params=last.params,
        curve=tuple((step, value) for step, value in sorted(curve.items()) if math.isfinite(value)),
        seconds=last.duration.total_seconds() if last.duration else None,
        folder=attributes.get("folder", ""),
        overrides=attributes.get("overrides", ()),
        confirms=tuple(attributes["confirms"]) if "confirms" in attributes else None,
        reason=attributes.get("reason", "") if is_failed else "",
    )


# ---- the summary


def read_study(folder: Path) -> StudySummary:
    """Return the study in a folder.

    Raises:
        HeedError: if there is no study, or its storage cannot be read.
    """
    opened = open_storage(folder)
    try:
        name, attributes = _find_study(opened, folder)
        shared = SharedStudy(optuna.load_study(study_name=name, storage=opened), attributes)
        trials = shared.trials()
        searched = dict.fromkeys(key.partition(" if ")[0] for key in attributes["space"])
        drawn = [trial.params for trial in trials if trial.params]
        return StudySummary(
            name=name,
            objective=attributes["objective"],
            maximize=shared.study.direction.name == "MAXIMIZE",
            n_trials=shared.budget,
            trials=trials,
            parameters=[one for one in searched if len({str(params.get(one)) for params in drawn}) > 1],
            is_searching=bool(shared.left()) or any(trial.state in ("running", "waiting") for trial in trials),
            confirmations=[trial for trial in shared.all_trials() if trial.confirms],
            verdict=shared.verdict(),
            space=yaml.safe_dump(attributes["space"], sort_keys=False),
            pruner=attributes["pruner"] or "none",
        )
    finally:
        opened.remove_session()
        opened.engine.dispose()


def _find_study(storage: RDBStorage, folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the attributes of a study; raise a HeedError if this version of heed did not make it."""
    made = {study.study_name: study.user_attrs.get(ATTRIBUTES) for study in storage.get_all_studies()}
    for name, attributes in made.items():
        if isinstance(attributes, dict):
            if attributes.get("format") != STUDY_FORMAT:
                raise HeedError(f"The study {name} was made by another version of heed: read it with that version.")
            return name, attributes
    raise HeedError(f"heed made no study in {folder / STUDY_FILE}: give the folder of a study, runs/NAME.")
