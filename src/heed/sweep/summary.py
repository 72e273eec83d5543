"""Read a study: its trials from an Optuna storage, and its verdict from its folder."""

from collections.abc import Sequence
from pathlib import Path

import optuna
import yaml
from optuna.distributions import BaseDistribution
from optuna.storages import RDBStorage
from pydantic import TypeAdapter

from heed.errors import HeedError, first_line
from heed.report.sweep import Parameter, StudySummary, Verdict
from heed.report.sweep_text import format_setting
from heed.sweep.study import ATTRIBUTES, FORMAT, VERDICT, SharedStudy, open_storage, original_number


def read_study(folder: Path, *, storage: str | None = None) -> StudySummary:
    """Return the study in a folder.

    Args:
        storage: URL of the Optuna storage; None: ``study.db`` in the folder.

    Raises:
        HeedError: if there is no study, or its storage or verdict cannot be read.
    """
    opened = open_storage(folder, storage)
    try:
        arms, confirmations = _find_studies(opened, folder, is_local=storage is None)
        first, attributes = arms[0].study, arms[0].attributes
        # A search that was extended may have several confirmations. The last one counts.
        confirmed = [trial.state for trial in confirmations[-1].trials()] if confirmations else []
        spaces = {arm.arm: arm.attributes["space"] for arm in arms}
        return StudySummary(
            name=str(attributes["study"]),
            objectives=[str(objective) for objective in attributes["objectives"]],
            maximize=[direction.name == "MAXIMIZE" for direction in first.directions],
            arms=list(spaces),
            n_trials=sum(arm.budget for arm in arms),
            trials=[trial for arm in arms for trial in arm.trials()],
            parameters=_parameters(arms),
            front=[original_number(trial) for trial in first.best_trials] if len(first.directions) > 1 else [],
            is_searching=not all(arm.is_finished() for arm in arms),
            confirmed=confirmed.count("complete"),
            confirming=confirmed.count("running") + confirmed.count("waiting"),
            verdict=read_verdict(folder / VERDICT),
            space=yaml.safe_dump(spaces if len(arms) > 1 else spaces[""], sort_keys=False),
            pruner=str(attributes.get("pruner") or "none"),
        )
    finally:
        opened.remove_session()
        opened.engine.dispose()


def read_verdict(file: Path) -> Verdict | None:
    """Return the verdict of a study, or None if it has none yet; raise a HeedError if the file is damaged."""
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


def _find_studies(storage: RDBStorage, folder: Path, *, is_local: bool) -> tuple[list[SharedStudy], list[SharedStudy]]:
    """Return the studies of a search, one per arm, and its confirmation studies.

    They are named after the folder. A local database holds only one search, so its folder may be renamed.
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


def _parameters(arms: Sequence[SharedStudy]) -> list[Parameter]:
    """Return the options that differ between trials or that only some trials have, in the order of the space."""
    trials = [trial for arm in arms for trial in arm.study.get_trials(deepcopy=False) if trial.params]
    ranges: dict[str, BaseDistribution] = {name: one for trial in trials for name, one in trial.distributions.items()}
    written = dict.fromkeys(key.partition(" if ")[0] for arm in arms for key in arm.attributes["space"])
    return [
        Parameter(
            name,
            log=bool(getattr(ranges[name], "log", False)),
            choices=tuple(format_setting(choice) for choice in getattr(ranges[name], "choices", ())),
        )
        for name in written
        if len({str(trial.params.get(name)) for trial in trials}) > 1
    ]
