"""Optuna studies as a search of heed leaves them, filled by ask and tell with chosen numbers."""

import json
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


def attribute(name: str, **changes: Any) -> dict[str, Any]:
    """Return the user attribute of a search."""
    return {
        "format": 3,
        "study": name,
        "objectives": ["valid.bleu"],
        "space": SPACE_TEXT,
        "fixed": ["data=multi30k", "trainer.max_steps=500"],
        "n_trials": 40,
        "pruner": "MedianPruner",
        **changes,
    }


def make_study(
    folder: Path,
    *,
    study: str | None = None,
    directions: Sequence[str] = ("maximize",),
    trials: Sequence[FrozenTrial] = (),
    database: str = "study.db",
    **changes: Any,
) -> optuna.Study:
    """Create a study in the database of a folder, with its attribute and trials; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = optuna.create_study(
        study_name=study or folder.name,
        storage=f"sqlite:///{folder / database}",
        directions=[*directions],
    )
    made.set_user_attr("heed", attribute(folder.name, **changes))
    made.add_trials(trials)
    return made


def make_trial(
    params: Mapping[str, Any],
    value: float | Sequence[float] | None = None,
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
    values = None if value is None else [value] if isinstance(value, float | int) else [*value]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = create_trial(
            state=TrialState[state],
            params=dict(params),
            distributions={name: space[name] for name in params},
            values=values,
            intermediate_values=dict(curve or {}),
            user_attrs=attributes,
            system_attrs={} if failed_trial is None else {"failed_trial": failed_trial},
        )
    if state != "WAITING":
        trial.datetime_start = start
    if trial.state.is_finished() and minutes is not None:
        trial.datetime_complete = start + timedelta(minutes=minutes)
    return trial


def searched_trials(count: int, *, seed: int = 0, best: float = 38.0, offset: int = 0) -> list[FrozenTrial]:
    """Return trials of a plausible search: a quarter pruned, one failed, the last one running."""
    rng = np.random.default_rng(seed)
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
        quality = best - 9 * (math.log10(params["optimizer.lr"]) + 2.6) ** 2 - 60 * (params["model.dropout"] - 0.2) ** 2
        quality += {"sinusoidal": 0.0, "rotary": 0.8, "learned": -1.5}[params["model/positions"]] + rng.normal(0, 0.3)
        quality = max(quality, 1.0)
        curve = {step: quality * (1 - math.exp(-step / 120)) + rng.normal(0, 0.2) for step in range(50, 501, 50)}
        folder, start = f"{number + offset}", START + timedelta(minutes=6 * number)
        if number == 5:
            reason = "The loss is NaN at step 121: lower optimizer.lr or set trainer.gradient_clip_val."
            early = {step: curve[step] for step in (50, 100)}
            made.append(
                make_trial(params, state="FAIL", curve=early, reason=reason, minutes=2.4, start=start, folder=folder)
            )
        elif number == count - 1:
            early = {step: curve[step] for step in (50, 100, 150)}
            made.append(make_trial(params, state="RUNNING", curve=early, start=start, folder=folder))
        elif number > 6 and quality < best - 3:
            early = {step: curve[step] for step in curve if step <= 50 * int(rng.integers(2, 6))}
            last = early[max(early)]
            minutes = 12 * max(early) / 500
            made.append(
                make_trial(params, last, state="PRUNED", curve=early, minutes=minutes, start=start, folder=folder)
            )
        else:
            made.append(make_trial(params, quality, curve=curve, minutes=12 + rng.normal(), start=start, folder=folder))
    return made


def write_verdict(folder: Path, configurations: Sequence[Mapping[str, Any]], **changes: Any) -> None:
    """Write the verdict of a study; of each configuration at least ``number``, ``found`` and ``valid`` are given."""
    filled = [
        {
            "overrides": ["model.dropout=0.17", "optimizer.lr=0.0023"],
            "runs": [f"confirm/{one['number']}_seed{seed}" for seed in (2, 3, 4)],
            "seeds": [2, 3, 4],
            "failed": [],
            **one,
        }
        for one in configurations
    ]
    variances = [float(np.var(one["valid"], ddof=1)) for one in filled if len(one["valid"]) > 1]
    verdict = {
        "format": 2,
        "configurations": filled,
        "winner": filled[0]["number"],
        "noise": float(np.sqrt(np.mean(variances))) if variances else None,
        "tests": {},
        "experiment": f"conf/experiment/{folder.name}.yaml",
        "rerun": f"python train.py experiment={folder.name} seed=2",
        "compare": None,
        **changes,
    }
    (folder / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
