"""Optuna studies as a search of heed leaves them, filled by ask and tell with chosen numbers."""

import math
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

START = datetime(2026, 11, 1, 12, 0)
SPACE: dict[str, BaseDistribution] = {
    "optimizer.lr": FloatDistribution(1e-4, 1e-2, log=True),
    "model.dropout": FloatDistribution(0.1, 0.4),
    "model.d_model": IntDistribution(64, 256, step=64),
    "model/positions": CategoricalDistribution(("sinusoidal", "rotary", "learned")),
    "model.max_positions": IntDistribution(64, 512),
}
SPACE_TEXT: dict[str, Any] = {
    "optimizer.lr": "tag(log, interval(0.0001, 0.01))",
    "model.dropout": "interval(0.1, 0.4)",
    "model.d_model": "range(64, 257, 64)",
    "model/positions": "choice(sinusoidal, rotary, learned)",
    "model.max_positions if model/positions=learned": "range(64, 513)",
}


def attribute(**changes: Any) -> dict[str, Any]:
    """Return the user attribute of a search."""
    return {
        "format": 5,
        "objective": "valid.bleu",
        "space": SPACE_TEXT,
        "fixed": ["data=multi30k", "trainer.max_steps=500"],
        "n_trials": 40,
        "points": None,
        "pruner": "MedianPruner",
        **changes,
    }


def make_study(
    folder: Path, *, study: str | None = None, trials: Sequence[FrozenTrial] = (), **changes: Any
) -> optuna.Study:
    """Create a study in the database of a folder, with its attribute and trials; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = optuna.create_study(
        study_name=study or folder.name, storage=f"sqlite:///{folder / 'study.db'}", direction="maximize"
    )
    made.set_user_attr("heed", attribute(**changes))
    made.add_trials(trials)
    return made


def make_trial(
    params: Mapping[str, Any],
    value: float | None = None,
    *,
    state: str = "COMPLETE",
    curve: Mapping[int, float] | None = None,
    minutes: float | None = 10.0,
    start: datetime = START,
    space: Mapping[str, BaseDistribution] = SPACE,
    failed_trial: int | None = None,
    **attributes: Any,
) -> FrozenTrial:
    """Return a trial in any state. Optuna sets its number when it is added to a study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = create_trial(
            state=TrialState[state],
            params=dict(params),
            distributions={name: space[name] for name in params},
            value=value,
            intermediate_values=dict(curve or {}),
            user_attrs=attributes,
            system_attrs={} if failed_trial is None else {"failed_trial": failed_trial},
        )
    if state != "WAITING":
        trial.datetime_start = start
    if trial.state.is_finished() and minutes is not None:
        trial.datetime_complete = start + timedelta(minutes=minutes)
    return trial


def searched_trials(count: int) -> list[FrozenTrial]:
    """Return trials of a plausible search: some pruned, one failed, the last one running."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        params = {
            "optimizer.lr": float(10 ** rng.uniform(-4, -2)),
            "model.dropout": float(rng.uniform(0.1, 0.4)),
            "model.d_model": int(rng.choice([64, 128, 192, 256])),
            "model/positions": str(rng.choice(["sinusoidal", "rotary", "learned"])),
        }
        if params["model/positions"] == "learned":
            params["model.max_positions"] = int(rng.integers(64, 512))
        score = 38.0 - 9 * abs(math.log10(params["optimizer.lr"]) + 2.6)
        curve = {step: score * (1 - math.exp(-step / 120)) for step in range(50, 501, 50)}
        early = {step: curve[step] for step in (50, 100)}
        start = START + timedelta(minutes=6 * number)
        if number == 5:
            reason = "The loss is NaN at step 121: lower optimizer.lr or set trainer.gradient_clip_val."
            end: dict[str, Any] = {"state": "FAIL", "curve": early, "reason": reason}
        elif number == count - 1:
            end = {"state": "RUNNING", "curve": early}
        elif number > 6 and score < 35:
            end = {"state": "PRUNED", "curve": early, "value": early[100]}
        else:
            end = {"value": score, "curve": curve}
        made.append(make_trial(params, start=start, folder=str(number), **end))
    return made


def write_verdict(study: optuna.Study, scores: Mapping[int, Sequence[float]], **changes: Any) -> None:
    """Write the verdict of a study, and the scores of configurations with the seeds 2, 3, …; the first one wins."""
    for number, valid in scores.items():
        for seed, score in enumerate(valid, start=2):
            study.add_trial(make_trial({}, score, confirms=[number, seed], folder=f"confirm/{number}_seed{seed}"))
    verdict = {
        "winner": next(iter(scores)),
        "runs": [],
        "comparison": [],
        "tests": {},
        "experiment": f"conf/experiment/{study.study_name}.yaml",
        "rerun": f"python train.py experiment={study.study_name} seed=2",
        **changes,
    }
    study.set_user_attr("verdict", verdict)
