"""Read a study from an Optuna storage."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import yaml

from heed.errors import HeedError
from heed.report.sweep import StudySummary
from heed.sweep.study import ATTRIBUTES, STUDY_FORMAT, SharedStudy, open_storage, original_number


def read_study(folder: Path, *, storage: str | None = None) -> StudySummary:
    """Return the study in a folder.

    Args:
        storage: URL of the Optuna storage; None: ``study.db`` in the folder.

    Raises:
        HeedError: if there is no study, or its storage cannot be read.
    """
    opened = open_storage(folder, storage)
    try:
        studies = {study.study_name: study.user_attrs.get(ATTRIBUTES) for study in opened.get_all_studies()}
        # The study is named after its folder. A local database holds only one, so its folder may be renamed.
        name = next(iter(studies)) if storage is None and len(studies) == 1 else folder.resolve().name
        attributes = _attributes(studies, name)
        shared = SharedStudy(optuna.load_study(study_name=name, storage=opened), attributes)
        study, trials = shared.study, shared.trials()
        searched = dict.fromkeys(key.partition(" if ")[0] for key in attributes["space"])
        drawn = [trial.params for trial in trials if trial.params]
        return StudySummary(
            name=name,
            objectives=attributes["objectives"],
            maximize=[direction.name == "MAXIMIZE" for direction in study.directions],
            n_trials=shared.budget,
            trials=trials,
            parameters=[one for one in searched if len({str(params.get(one)) for params in drawn}) > 1],
            front=[original_number(trial) for trial in study.best_trials] if len(study.directions) > 1 else [],
            is_searching=bool(shared.left()) or any(trial.state in ("running", "waiting") for trial in trials),
            confirmations=[trial for trial in shared.all_trials() if trial.confirms],
            verdict=shared.verdict(),
            space=yaml.safe_dump(attributes["space"], sort_keys=False),
            pruner=attributes["pruner"] or "none",
        )
    finally:
        opened.remove_session()
        opened.engine.dispose()


def _attributes(studies: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the attributes of the study of this name; raise a HeedError if this version of heed did not make it."""
    made = [each for each, attributes in studies.items() if isinstance(attributes, dict)]
    if name not in made:
        has = f"it has {', '.join(made)}" if made else "no study in it was made by heed"
        raise HeedError(f"The storage has no study {name} ({has}): give the folder of a study, runs/NAME.")
    attributes: dict[str, Any] = studies[name]
    if attributes.get("format") != STUDY_FORMAT:
        raise HeedError(f"The study {name} was made by another version of heed: read it with that version.")
    return attributes
