"""Read a study: its trials from an Optuna storage, the verdict from the study's folder."""

import re
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.distributions import BaseDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from pydantic import TypeAdapter
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from heed.errors import HeedError, first_line
from heed.report.sweep import Parameter, StudySummary, TrialSummary, Verdict
from heed.report.sweep_text import format_setting
from heed.sweep.study import (
    ATTRIBUTES,
    FORMAT,
    STUDY_FILE,
    VERDICT,
    SharedStudy,
    default_storage,
    explaining,
    original_number,
)

MIN_IMPORTANCE_TRIALS = 10  # complete ones; importances of fewer would mostly be chance
TOP_TRIALS = 5
"""PED-ANOVA compares the best trials with all trials; its authors recommend at least five."""
TOP_FRACTION = 0.1


def read_study(folder: Path, *, storage: str | None = None, now: datetime | None = None) -> StudySummary:
    """Return the study of a folder.

    Args:
        storage: URL of the Optuna storage; None for ``study.db`` in the folder.
        now: the time for durations of running trials; None for the present.

    Raises:
        HeedError: if there is no study, or its storage or verdict cannot be read.
    """
    with _open_storage(folder, storage) as opened:
        arms, confirmations = _find_studies(opened, folder, is_local=storage is None)
        trials = {arm.arm: arm.trials(now=now) for arm in arms}
        first, attributes = arms[0].study, arms[0].attributes
        confirmed = [trial.state for trial in confirmations[-1].trials()] if confirmations else []
        importances = {arm.arm: _importances(arm.study) for arm in arms}
        spaces = {arm.arm: arm.attributes["space"] for arm in arms}
        return StudySummary(
            name=str(attributes["study"]),
            objectives=[str(objective) for objective in attributes["objectives"]],
            maximize=[direction.name == "MAXIMIZE" for direction in first.directions],
            arms=list(trials),
            n_trials=sum(arm.budget for arm in arms),
            trials=[trial for arm in arms for trial in trials[arm.arm]],
            parameters=_parameters(arms, importances),
            importances={arm: found for arm, found in importances.items() if found},
            front=[original_number(trial) for trial in first.best_trials] if len(first.directions) > 1 else [],
            is_searching=not all(arm.is_finished() for arm in arms),
            seconds_left=estimate_seconds([(trials[arm.arm], arm.to_start()) for arm in arms]),
            # A search that went on after its end may have several confirmations; the last one counts.
            confirmed=confirmed.count("complete"),
            confirming=confirmed.count("running") + confirmed.count("waiting"),
            verdict=read_verdict(folder / VERDICT),
            space=yaml.safe_dump(spaces if len(arms) > 1 else spaces[""], sort_keys=False),
            pruner=str(attributes.get("pruner") or "none"),
            command=_without_password(str(attributes.get("command") or "")),
        )


def estimate_seconds(arms: Sequence[tuple[Sequence[TrialSummary], int]]) -> float | None:
    """Estimate the seconds until the budget of all arms is used up, if the number of running workers stays the same.

    Args:
        arms: the trials of each arm, and the number of trials that are still to be started.

    Returns:
        None if no worker is running, or no trial of an arm has finished.
    """
    running = sum(trial.state == "running" for trials, _ in arms for trial in trials)
    work = 0.0
    for trials, to_start in arms:  # they may be models of different speed
        # For a resumed trial, only the duration of its last attempt is known.
        finished = [trial for trial in trials if trial.state in ("complete", "pruned") and trial.attempts == 1]
        durations = [trial.seconds for trial in finished if trial.seconds is not None]
        if not durations or not running:
            return None
        typical = statistics.fmean(durations)
        elapsed = [trial.seconds or 0.0 for trial in trials if trial.state == "running"]
        work += typical * to_start + sum(max(typical - seconds, 0.0) for seconds in elapsed)
    return work / running


def read_verdict(file: Path) -> Verdict | None:
    """Return the verdict of a study; None if it has none yet. Raise a HeedError if the file is damaged."""
    if not file.is_file():
        return None
    try:
        verdict = TypeAdapter(Verdict).validate_json(file.read_bytes())
        verdict.best  # noqa: B018  # the winner must be one of the configurations
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, StopIteration) as error:
        raise HeedError(
            f"{file} is damaged ({first_line(error)}): move it away to see the study without it."
        ) from error
    return verdict


# ---- the storage


@contextmanager
def _open_storage(folder: Path, url: str | None) -> Iterator[RDBStorage]:
    """Open an Optuna storage that exists. Optuna itself would create its tables in any empty database."""
    try:
        address = make_url(url or default_storage(folder))
    except ArgumentError as error:
        raise HeedError(
            f"--storage {url} is not the URL of a database: write, for example, postgresql+psycopg://USER@HOST/NAME."
        ) from error
    shown = address.render_as_string(hide_password=True) if url else str(folder / STUDY_FILE)
    if address.get_backend_name() == "sqlite" and not Path(address.database or "").is_file():
        if url:
            raise HeedError(f"--storage {url}: there is no file {address.database}.")
        if not folder.is_dir():
            raise HeedError(f"There is no folder {folder}: give the folder of a study, such as runs/NAME.")
        raise HeedError(
            f"{folder} holds no {STUDY_FILE}: give the folder of a study, or with --storage the URL of its database."
        )
    with explaining(shown, "read"):
        storage = RDBStorage(address.render_as_string(hide_password=False), skip_table_creation=True)
        try:
            yield storage
        finally:
            storage.remove_session()
            storage.engine.dispose()


def _find_studies(storage: RDBStorage, folder: Path, *, is_local: bool) -> tuple[list[SharedStudy], list[SharedStudy]]:
    """Return the studies of a search, one for each arm, and those that confirm its best configurations.

    They have the name of the folder. A database in the folder holds only one search, so that a folder may be renamed.
    """
    described = {study.study_name: study.user_attrs.get(ATTRIBUTES) for study in storage.get_all_studies()}
    found = {name: made for name, made in described.items() if isinstance(made, dict) and "study" in made}
    names = sorted({str(made["study"]) for made in found.values()})
    name = names[0] if is_local and len(names) == 1 else folder.resolve().name
    chosen = {study: made for study, made in found.items() if made["study"] == name}
    arms = {study: made for study, made in chosen.items() if not made.get("confirms")}
    if not arms:
        has = f"it has {', '.join(names)}" if names else "no study in it was made by heed"
        raise HeedError(f"The storage has no study {name} ({has}): give the folder of a study, runs/NAME.")
    for study, made in arms.items():
        if made.get("format") != FORMAT or not isinstance(made.get("space"), dict):
            raise HeedError(f"The study {study} was made by another version of heed: read it with that version.")
    loaded = {s: SharedStudy(optuna.load_study(study_name=s, storage=storage), made) for s, made in chosen.items()}
    return [loaded[study] for study in arms], [loaded[study] for study in chosen if study not in arms]


# ---- what the trials show


def _parameters(arms: Sequence[SharedStudy], importances: Mapping[str, Mapping[str, float]]) -> list[Parameter]:
    """Return the options that differ between trials or that only some trials have, the most important first."""
    trials = [trial for arm in arms for trial in arm.study.get_trials(deepcopy=False) if trial.params]
    ranges: dict[str, BaseDistribution] = {name: one for trial in trials for name, one in trial.distributions.items()}
    written = [name for arm in arms for name in _names(arm.attributes["space"])]
    largest = {name: max(found.get(name, 0.0) for found in importances.values()) for name in ranges}
    return [
        Parameter(
            name,
            log=bool(getattr(ranges[name], "log", False)),
            choices=tuple(format_setting(choice) for choice in getattr(ranges[name], "choices", ())),
        )
        for name in sorted(ranges, key=lambda name: (-largest[name], written.index(name) if name in written else 0))
        if len({str(trial.params.get(name)) for trial in trials}) > 1
    ]


def _names(space: Mapping[str, Any]) -> Iterator[str]:
    for name, value in space.items():
        if isinstance(value, Mapping):
            yield from _names(value)
        else:
            yield name


def _importances(study: optuna.Study) -> dict[str, float]:
    """Return the importances (PED-ANOVA, Watanabe et al. 2023); none of too few complete trials."""
    complete = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    if complete < MIN_IMPORTANCE_TRIALS:
        return {}
    evaluator = PedAnovaImportanceEvaluator(target_quantile=max(TOP_FRACTION, TOP_TRIALS / complete))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal scores of all trials
        return dict(get_param_importances(study, evaluator=evaluator))


def _without_password(command: str) -> str:
    """Hide the password in the URL of a storage."""
    return re.sub(r"(://[^\s:/@]*):\S+@", r"\1:***@", command)
