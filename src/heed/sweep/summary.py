"""Read a study: its trials from an Optuna storage, and its verdict from its folder."""

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
        search, confirmations = _find_studies(opened, folder, is_local=storage is None)
        study, attributes = search.study, search.attributes
        # A search that was extended may have several confirmations. The last one counts.
        confirmed = [trial.state for trial in confirmations[-1].trials()] if confirmations else []
        return StudySummary(
            name=str(attributes["study"]),
            objectives=[str(objective) for objective in attributes["objectives"]],
            maximize=[direction.name == "MAXIMIZE" for direction in study.directions],
            n_trials=search.budget,
            trials=search.trials(),
            parameters=_parameters(search),
            front=[original_number(trial) for trial in study.best_trials] if len(study.directions) > 1 else [],
            is_searching=not search.is_finished(),
            confirmed=confirmed.count("complete"),
            confirming=confirmed.count("running") + confirmed.count("waiting"),
            verdict=read_verdict(folder / VERDICT),
            space=yaml.safe_dump(attributes["space"], sort_keys=False),
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


def _find_studies(storage: RDBStorage, folder: Path, *, is_local: bool) -> tuple[SharedStudy, list[SharedStudy]]:
    """Return the study of a search and its confirmation studies.

    They are named after the folder. A local database holds only one search, so its folder may be renamed.
    """
    described = {study.study_name: study.user_attrs.get(ATTRIBUTES) for study in storage.get_all_studies()}
    found = {name: made for name, made in described.items() if isinstance(made, dict) and "study" in made}
    names = sorted({str(made["study"]) for made in found.values()})
    name = names[0] if is_local and len(names) == 1 else folder.resolve().name
    chosen = {study: made for study, made in found.items() if made["study"] == name}
    search = next((study for study, made in chosen.items() if not made.get("confirms")), None)
    if search is None:
        has = f"it has {', '.join(names)}" if names else "no study in it was made by heed"
        raise HeedError(f"The storage has no study {name} ({has}): give the folder of a study, runs/NAME.")
    if chosen[search].get("format") != FORMAT or not isinstance(chosen[search].get("space"), dict):
        raise HeedError(f"The study {search} was made by another version of heed: read it with that version.")
    loaded = {s: SharedStudy(optuna.load_study(study_name=s, storage=storage), made) for s, made in chosen.items()}
    return loaded.pop(search), list(loaded.values())


def _parameters(search: SharedStudy) -> list[Parameter]:
    """Return the options that differ between trials or that only some trials have, in the order of the space."""
    trials = [trial for trial in search.study.get_trials(deepcopy=False) if trial.params]
    ranges: dict[str, BaseDistribution] = {name: one for trial in trials for name, one in trial.distributions.items()}
    written = dict.fromkeys(key.partition(" if ")[0] for key in search.attributes["space"])
    return [
        Parameter(
            name,
            log=bool(getattr(ranges[name], "log", False)),
            choices=tuple(format_setting(choice) for choice in getattr(ranges[name], "choices", ())),
        )
        for name in written
        if len({str(trial.params.get(name)) for trial in trials}) > 1
    ]
