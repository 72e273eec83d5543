"""Read a study: its trials from an Optuna storage, the verdict from the study's folder."""

import json
import math
import re
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.errors import HeedError, first_line, missing_package
from heed.report.sweep import (
    Arm,
    Configuration,
    Parameter,
    State,
    StudySummary,
    TrialSummary,
    VerdictSummary,
    flat_space,
)
from heed.report.sweep_text import format_value
from heed.sweep.stored import ATTRIBUTES, FORMAT, REASON, STUDY_FILE, SURPLUS, VERDICT

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial


MIN_IMPORTANCE_TRIALS = 10
"""Importances of fewer complete trials would mostly be chance."""
TOP_TRIALS = 5
"""PED-ANOVA compares the best trials with all trials; its authors recommend at least five."""
TOP_FRACTION = 0.1

STATES: Mapping[str, State] = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}


def read_study(folder: Path, *, storage: str | None = None, now: datetime | None = None) -> StudySummary:
    """Return the study of a folder.

    Args:
        folder: ``runs/NAME``; its name is the name of the study.
        storage: URL of the Optuna storage; None for ``study.db`` in the folder.
        now: the time for durations of running trials; None for the present.

    Raises:
        HeedError: if there is no study, or its storage or verdict cannot be read.
    """
    now = now or datetime.now()
    with _open_storage(folder, storage) as opened:
        found = _find_studies(opened, folder, is_local=storage is None)
        name = found[0][1]["study"]
        arms: list[Arm] = []
        parameters: dict[str, Parameter] = {}
        for study, attribute in found:
            arms.append(_read_arm(study, attribute, now))
            parameters |= _read_parameters(study, attribute["space"])
        directions = found[0][0].directions
        confirmations = _confirmations(opened, name)
    return StudySummary(
        name=name,
        objectives=[str(objective) for objective in found[0][1]["objectives"]],
        maximize=[direction.name == "MAXIMIZE" for direction in directions],
        arms=arms,
        parameters=list(parameters.values()),
        seconds_left=estimate_seconds(arms),
        confirmed=confirmations.count("complete"),
        confirming=confirmations.count("running") + confirmations.count("waiting"),
        verdict=_read_verdict(folder / VERDICT),
    )


def estimate_seconds(arms: Sequence[Arm]) -> float | None:
    """Estimate the time until the budget of all arms is used up, if the number of running workers stays the same.

    Returns:
        Seconds; None if nothing is left, no worker is running or no trial has finished.
    """
    finished = [trial for arm in arms for trial in arm.trials if trial.state in ("complete", "pruned")]
    running = [trial for arm in arms for trial in arm.trials if trial.state == "running"]
    if not finished or not running:
        return None
    work = 0.0
    for arm in arms:
        # The arms may be models of different speed.
        own = [trial for trial in finished if trial.arm == arm.name] or finished
        # The duration of a resumed trial is that of its last attempt.
        durations = [t.seconds for t in own if t.seconds is not None and t.attempts == 1]
        durations = durations or [t.seconds for t in own if t.seconds is not None]
        if not durations:
            return None
        typical = statistics.fmean(durations)
        elapsed = [trial.seconds or 0.0 for trial in running if trial.arm == arm.name]
        work += typical * arm.to_start + sum(max(typical - seconds, 0.0) for seconds in elapsed)
    return work / len(running)


# ---- the storage


@contextmanager
def _open_storage(folder: Path, url: str | None) -> "Iterator[RDBStorage]":
    """Open an Optuna storage that exists. Nothing is created: Optuna would make its tables in any empty database."""
    try:
        import optuna
        import sqlalchemy
        from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    except ModuleNotFoundError as error:
        raise missing_package("heed sweep", error.name or "optuna", "sweep") from error
    try:
        address = (
            sqlalchemy.make_url(url) if url else sqlalchemy.URL.create("sqlite", database=str(folder / STUDY_FILE))
        )
    except ArgumentError as error:
        raise HeedError(
            f"--storage {url} is not the URL of a database: write, for example, postgresql+psycopg://USER@HOST/NAME."
        ) from error
    shown = address.render_as_string(hide_password=True) if url else str(folder / STUDY_FILE)
    if address.get_backend_name() == "sqlite" and not Path(address.database or "").is_file():
        raise _missing_database(folder, url, address.database)
    storage = None
    try:
        engine = sqlalchemy.create_engine(address)
        try:
            if not sqlalchemy.inspect(engine).has_table("studies"):
                raise HeedError(f"{shown} is not an Optuna storage: it has no table of studies.")
        finally:
            engine.dispose()
        storage = optuna.storages.RDBStorage(address.render_as_string(hide_password=False))
        yield storage
    except ModuleNotFoundError as error:
        if address.get_backend_name() == "postgresql":
            raise missing_package(shown, error.name or "a driver", "postgresql") from error
        raise HeedError(f"{shown} needs the Python package {error.name}: install it with pip.") from error
    except SQLAlchemyError as error:
        reason = first_line(error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig else error)
        raise HeedError(f"{shown} cannot be read ({reason}).") from error
    except RuntimeError as error:  # the tables are of another version of Optuna
        raise HeedError(f"{shown} cannot be read ({first_line(error)}).") from error
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def _missing_database(folder: Path, url: str | None, database: str | None) -> HeedError:
    if url:
        return HeedError(f"--storage {url}: there is no file {database}.")
    if not folder.is_dir():
        return HeedError(f"There is no folder {folder}: give the folder of a study, such as runs/NAME.")
    return HeedError(
        f"{folder} holds no {STUDY_FILE}: give the folder of a study, or with --storage the URL of its database."
    )


def _find_studies(storage: "RDBStorage", folder: Path, *, is_local: bool) -> list[tuple["Study", dict[str, Any]]]:
    """Return the studies of a search with their attributes.

    A database of many studies is searched for the name of the folder. The database in the folder of a study holds only
    one, so that a folder may be renamed.
    """
    found = [
        (study.study_name, attribute)
        for study in storage.get_all_studies()
        if isinstance(attribute := study.user_attrs.get(ATTRIBUTES), dict) and "study" in attribute
    ]
    names = sorted({str(attribute["study"]) for _, attribute in found})
    name = folder.resolve().name
    if is_local and len(names) == 1:
        (name,) = names
    chosen = [(study, attribute) for study, attribute in found if attribute["study"] == name]
    chosen = [(study, attribute) for study, attribute in chosen if not attribute.get("confirms")]
    if not chosen:
        has = f"it has {', '.join(names)}" if names else "no study in it was made by heed"
        raise HeedError(f"The storage has no study {name} ({has}): give the folder of a study, runs/NAME.")
    studies = []
    for study, attribute in chosen:
        if attribute.get("format") != FORMAT or not isinstance(attribute.get("space"), dict):
            raise HeedError(f"The study {study} was made by another version of heed: read it with that version.")
        studies.append((_load(storage, study), attribute))
    return studies


def _confirmations(storage: "RDBStorage", name: str) -> list[State]:
    """Return the states of the trainings that confirm the best configurations.

    A search that went on after its end may have several confirmations; the last one counts.
    """
    studies = [
        study.study_name
        for study in storage.get_all_studies()
        if isinstance(attribute := study.user_attrs.get(ATTRIBUTES), dict)
        and attribute.get("study") == name
        and attribute.get("confirms")
    ]
    if not studies:
        return []
    return [STATES[trials[-1].state.name] for trials in _attempts(_load(storage, studies[-1]).get_trials()).values()]


def _load(storage: "RDBStorage", name: str) -> "Study":
    import optuna

    return optuna.load_study(study_name=name, storage=storage)


# ---- studies and trials


def _read_arm(study: "Study", attribute: Mapping[str, Any], now: datetime) -> Arm:
    arm = str(attribute.get("arm") or "")
    trials = study.get_trials(deepcopy=False)
    importances, count = _importances(study, trials)
    attempts = _attempts(trials)
    return Arm(
        name=arm,
        n_trials=int(attribute.get("n_trials") or 0),
        trials=[_read_trial(group, arm, now) for group in attempts.values()],
        space=attribute["space"],
        fixed=[str(override) for override in attribute.get("fixed") or ()],
        command=_without_password(str(attribute.get("command") or "")),
        pruner=str(attribute.get("pruner") or ""),
        counts_failed=bool(attribute.get("counts_failed")),
        importances=importances,
        importance_trials=count,
    )


def _attempts(trials: "Sequence[FrozenTrial]") -> dict[int, "list[FrozenTrial]"]:
    """Return the attempts of each trial, in order, by the number of its first attempt.

    Trials that a worker claimed beyond the budget are left out.
    """
    groups: dict[int, list[FrozenTrial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.user_attrs.get(REASON) != SURPLUS:
            groups.setdefault(trial.system_attrs.get("failed_trial", trial.number), []).append(trial)
    return groups


def _read_trial(attempts: "Sequence[FrozenTrial]", arm: str, now: datetime) -> TrialSummary:
    first, last = attempts[0], attempts[-1]
    # A resumed trial goes on from a checkpoint, so that its curve starts with an earlier attempt.
    curve = {step: value for trial in attempts for step, value in trial.intermediate_values.items()}
    state = STATES[last.state.name]
    end = last.datetime_complete or now
    seconds = (end - last.datetime_start).total_seconds() if last.datetime_start else None
    values = last.values if state in ("complete", "pruned") else None
    return TrialSummary(
        number=first.number,
        arm=arm,
        state=state,
        values=tuple(float(value) for value in values or ()),
        params=last.params,
        curve=tuple((step, value) for step, value in sorted(curve.items()) if math.isfinite(value)),
        seconds=None if seconds is None else max(seconds, 0.0),
        attempts=len(attempts),
        folder=str(last.user_attrs.get("folder") or first.user_attrs.get("folder") or ""),
        reason=str(last.user_attrs.get(REASON) or "") if state == "failed" else "",
    )


def _read_parameters(study: "Study", space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the options that the trials have, in the order of the space."""
    distributions: dict[str, BaseDistribution] = {}
    for trial in study.get_trials(deepcopy=False):
        distributions |= trial.distributions
    order = {name: place for place, (name, _, _) in enumerate(flat_space(space))}
    return {
        name: Parameter(
            name,
            log=bool(getattr(distribution, "log", False)),
            choices=tuple(format_value(choice) for choice in getattr(distribution, "choices", ())),
        )
        for name, distribution in sorted(distributions.items(), key=lambda item: order.get(item[0], len(order)))
    }


def _importances(study: "Study", trials: "Sequence[FrozenTrial]") -> tuple[dict[str, float], int]:
    """Return the importances (PED-ANOVA, Watanabe et al. 2023) and the number of complete trials behind them."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    complete = sum(trial.state.name == "COMPLETE" for trial in trials)
    if complete < MIN_IMPORTANCE_TRIALS:
        return {}, complete
    evaluator = PedAnovaImportanceEvaluator(target_quantile=max(TOP_FRACTION, TOP_TRIALS / complete))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal scores of all trials
        return dict(get_param_importances(study, evaluator=evaluator)), complete


def _without_password(command: str) -> str:
    """Hide the password in the URL of a storage."""
    return re.sub(r"(://[^\s:/@]*):\S+@", r"\1:***@", command)


# ---- the verdict


def _read_verdict(file: Path) -> VerdictSummary | None:
    """Return the verdict; None if the study has not come to one.

    Raises:
        HeedError: if the file is damaged.
    """
    if not file.is_file():
        return None
    try:
        return _parse_verdict(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise HeedError(
            f"{file} is damaged ({first_line(error)}): move it away to see the study without it."
        ) from error


def _parse_verdict(data: Mapping[str, Any]) -> VerdictSummary:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']} is of another version of heed")
    configurations = [
        Configuration(
            trial=int(one["trial"]),
            arm=str(one.get("arm") or ""),
            found=None if one["found"] is None else float(one["found"]),
            overrides=[str(override) for override in one["overrides"]],
            seeds=[int(seed) for seed in one["seeds"]],
            valid=[float(score) for score in one["valid"]],
            failed=[str(reason) for reason in one.get("failed") or ()],
        )
        for one in data["configurations"]
    ]
    # Trials of different arms may have the same number.
    arm = data.get("winner_arm")
    winner = next(one for one in configurations if one.trial == data["winner"] and arm in (None, one.arm) and one.valid)
    tests = data.get("tests_by_arm") or {winner.arm: data.get("test")}
    return VerdictSummary(
        configurations=configurations,
        winner=winner,
        noise=float(data["noise"] or 0.0),
        tests={arm: {name: {**scores} for name, scores in (sets or {}).items()} for arm, sets in tests.items()},
        experiment=str(data.get("experiment") or ""),
        rerun=str(data.get("rerun") or ""),
        compare=str(data.get("compare") or ""),
    )
