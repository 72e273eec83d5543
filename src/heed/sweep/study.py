"""A study that any number of workers share: its storage, its budget, and trials whose worker died."""

import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages import fail_stale_trials as optuna_fail_stale_trials
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import IntegrityError, ProgrammingError

from heed.errors import HeedError, first_line, missing_package
from heed.options import format_value
from heed.runs.objectives import StudyDirection
from heed.sweep.samplers import MakeSampler
from heed.sweep.stored import ATTRIBUTES, REASON, STUDY_FILE, SURPLUS

MISSED_HEARTBEATS = 3
"""A trial counts as dead after this many missed heartbeats."""
MAX_DEATHS = 3
"""A trial whose workers died more often is not started again: it may be the cause."""

CREATION_TRIES = 4
"""Attempts, one second apart, to open a storage whose tables other workers create at the same time."""


def default_storage(folder: Path) -> str:
    """Return the URL of the SQLite file in a study's folder."""
    return f"sqlite:///{folder.resolve() / STUDY_FILE}"


def open_storage(url: str, *, heartbeat: int) -> RDBStorage:
    """Open the storage of a study, and create its tables if they are missing.

    Args:
        url: of a database as SQLAlchemy writes it.
        heartbeat: seconds between two heartbeats of a trial.

    Raises:
        HeedError: if it cannot be reached, or its driver is missing.
    """
    # A busy SQLite file is tried again for this long.
    patience = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        for _ in range(CREATION_TRIES):
            # Two workers that start at once may both create the tables; the second one tries again.
            with suppress(ProgrammingError, IntegrityError):
                return _rdb_storage(url, patience, heartbeat)
            time.sleep(1)
        return _rdb_storage(url, patience, heartbeat)
    except ImportError as error:
        raise missing_package(
            f"sweep.storage={_without_password(url)}",
            f"a driver ({error}; for PostgreSQL, write postgresql+psycopg://…)",
            "postgresql",
        ) from error
    except Exception as error:  # of SQLAlchemy or of any driver
        raise HeedError(
            f"sweep.storage={_without_password(url)} cannot be used: {first_line(error)} Check the URL, and that the "
            "database runs."
        ) from error


def _rdb_storage(url: str, engine_kwargs: dict[str, Any], heartbeat: int) -> RDBStorage:
    with _quiet():
        return RDBStorage(
            url,
            engine_kwargs=engine_kwargs,
            heartbeat_interval=heartbeat,
            grace_period=MISSED_HEARTBEATS * heartbeat,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(
                max_retry=MAX_DEATHS, inherit_intermediate_values=True
            ),
        )


class SharedStudy:
    """One Optuna study with a budget of trials that its workers claim one by one.

    Optuna numbers the trials of a study one after the other, whichever worker creates them. Every rule here is a
    function of these numbers, so workers agree without a lock or a coordinator.
    """

    def __init__(self, study: optuna.Study, *, budget: int, counts_failed: bool = False, seed: int = 0) -> None:
        """
        Args:
            study: with its pruner.
            budget: trials to finish.
            counts_failed: whether a failed trial uses up the budget.
            seed: of the sampler.
        """
        self.study, self.budget, self.counts_failed, self.seed = study, budget, counts_failed, seed

    @classmethod
    def join(
        cls,
        storage: RDBStorage,
        name: str,
        *,
        directions: Sequence[StudyDirection],
        attributes: Mapping[str, Any],
        pruner: optuna.pruners.BasePruner,
        budget: int,
        counts_failed: bool = False,
        seed: int = 0,
    ) -> "SharedStudy":
        """Create the study, or join it if it exists.

        Args:
            attributes: describe the study. A study can be joined only with the same ones, but for "n_trials" and
                "command".

        Raises:
            HeedError: if the study exists with other attributes.
        """
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            directions=list(directions),
            pruner=pruner,
            sampler=optuna.samplers.RandomSampler(),
            load_if_exists=True,
        )
        existing = study.user_attrs.get(ATTRIBUTES)
        if existing is not None:
            _check_same(name, existing, attributes)
        if existing is None or existing.get("n_trials") != attributes.get("n_trials"):
            study.set_user_attr(ATTRIBUTES, dict(attributes))
        return cls(study, budget=budget, counts_failed=counts_failed, seed=seed)

    def trials(self) -> dict[int, list[FrozenTrial]]:
        """Return the trials by the number of the original one: with those that continue it after its worker died."""
        chains: dict[int, list[FrozenTrial]] = {}
        for trial in self.study.get_trials(deepcopy=False):
            chains.setdefault(original_number(trial), []).append(trial)
        return chains

    def used(self, *, before: int | None = None) -> int:
        """Return how many trials use up the budget: those complete, pruned, running, or to be continued.

        Args:
            before: count only trials with lower numbers.
        """
        return sum(
            self._uses_budget(chain[-1]) for number, chain in self.trials().items() if before is None or number < before
        )

    def position(self, number: int) -> int:
        """Return the index of a trial among those that use up the budget."""
        return self.used(before=number)

    def is_finished(self) -> bool:
        """Return whether the budget is used up and no trial is running or waiting."""
        chains = self.trials().values()
        is_open = any(chain[-1].state in (TrialState.RUNNING, TrialState.WAITING) for chain in chains)
        return not is_open and self.used() >= self.budget

    def recover(self) -> None:
        """Queue the trials whose worker died, so that the next worker continues them."""
        with _quiet():
            optuna_fail_stale_trials(self.study)
        # A worker may also have died before its first heartbeat.
        storage: Any = self.study._storage
        silent = timedelta(seconds=2 * MISSED_HEARTBEATS * storage.get_heartbeat_interval())
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            started = trial.datetime_start
            is_old = started is not None and datetime.now() - started > silent
            if is_old and "folder" not in trial.user_attrs:
                self.release(trial._trial_id)

    def claim(self, make_sampler: MakeSampler) -> Trial | None:
        """Return a trial to run: one to be continued if there is one, else a new one; None if the budget is used up."""
        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if not waiting and self.used() >= self.budget:
            return None
        # Relative samplers (CMA-ES, NSGA-II) draw inside ask(); the others draw later, with a seed of the trial's own.
        self.study.sampler = make_sampler(self._seed(len(self.study.get_trials(deepcopy=False))))
        with _quiet():
            trial = self.study.ask()
            self.study._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]
        self.study.sampler = make_sampler(self._seed(trial.number))
        frozen = self.study._storage.get_trial(trial._trial_id)
        if original_number(frozen) == trial.number and self.position(trial.number) >= self.budget:
            # Another worker has claimed the last one in the same moment.
            self.fail(trial, SURPLUS)
            return None
        return trial

    def fail(self, trial: Trial, reason: str) -> None:
        """Mark a trial as failed for a reason, so that it is not continued."""
        trial.set_user_attr(REASON, reason)
        self.study.tell(trial, state=TrialState.FAIL)

    def release(self, trial_id: int) -> None:
        """Queue a running trial whose worker stops or is dead, so that the next worker continues it."""
        storage = self.study._storage
        try:
            stopped = storage.set_trial_state_values(trial_id, state=TrialState.FAIL)
        except optuna.exceptions.UpdateFinishedTrialError:  # another worker was faster
            return
        if stopped:
            with _quiet():
                retry = RetryHeartbeatStaleTrialCallback(inherit_intermediate_values=True)
                retry(self.study, storage.get_trial(trial_id))

    def _uses_budget(self, trial: FrozenTrial) -> bool:
        if trial.state != TrialState.FAIL:
            return True
        reason = trial.user_attrs.get(REASON)
        return reason is None or (self.counts_failed and reason != SURPLUS)

    def _seed(self, number: int) -> int:
        return (self.seed * 1_000_003 + number) % 2**32


def original_number(trial: FrozenTrial) -> int:
    """Return the number of the trial that this one continues, or its own."""
    with _quiet():
        number = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
    return trial.number if number is None else number


@contextmanager
def send_heartbeats(storage: RDBStorage, trial_id: int) -> Iterator[None]:
    """Record heartbeats of a running trial within the block."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(storage.heartbeat_interval):
            storage.record_heartbeat(trial_id)

    storage.record_heartbeat(trial_id)
    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _check_same(name: str, existing: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise a HeedError if a study was created with other attributes."""
    for key in given.keys() - {"n_trials", "command"}:
        if existing.get(key) != given[key]:
            raise HeedError(
                f"The study {name} exists with another {key}: {format_value(existing.get(key))} there, "
                f"{format_value(given[key])} now. Give the same options to continue it, or another name=NAME."
            )


def _without_password(url: str) -> str:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore Optuna's notices about interfaces that may change, and about heartbeats outside Study.optimize."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
