"""Run one trial of a study, wherever it was launched: report to the study, and record how the trial ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from heed.errors import HeedError
from heed.runs.objectives import objective_values
from heed.runs.results import RESULTS, read_results
from heed.sweep.pruners import build_pruner
from heed.sweep.settings import SweepSettings
from heed.sweep.study import SharedStudy, default_storage, open_storage, send_heartbeats

Train = Callable[..., list[float] | None]
"""`heed.launch.train`: takes the configuration and ``report``; returns the objectives, None if pruned."""


def run_trial(cfg: Any, *, train: Train) -> None:
    """Train the run of one trial.

    The trial ends complete, pruned, or failed with a reason. If the process is stopped, the trial is queued, and the
    next worker continues it.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.
        train: trains the run.
    """
    options: Any = OmegaConf.to_container(cfg.sweep, resolve=True)
    settings = SweepSettings(**options)
    folder = Path(HydraConfig.get().runtime.output_dir)
    assert settings.trial is not None
    study_name, _, number = settings.trial.rpartition("#")
    url = settings.storage or default_storage(Path(HydraConfig.get().sweep.dir))
    storage = open_storage(url, heartbeat=settings.heartbeat)
    study = optuna.load_study(
        study_name=study_name,
        storage=storage,
        sampler=optuna.samplers.RandomSampler(),  # the values are chosen already
        pruner=build_pruner(settings),
    )
    shared = SharedStudy(study, budget=0)
    trial = Trial(study, storage.get_trial_id_from_study_id_trial_number(study._study_id, int(number)))

    def report(step: int, value: float) -> bool:
        # A continued trial repeats the steps after its last checkpoint.
        if step not in storage.get_trial(trial._trial_id).intermediate_values:
            trial.report(value, step)
        return trial.should_prune()

    try:
        with send_heartbeats(storage, trial._trial_id):
            values = finished_objectives(folder, settings) or train(cfg, report=report)
        study.tell(trial, values, state=TrialState.PRUNED if values is None else TrialState.COMPLETE)
    except UpdateFinishedTrialError as error:
        raise HeedError(
            f"Trial {number} of {study_name} was silent for so long that another worker has taken it over."
        ) from error
    except Exception as error:
        shared.fail(trial, reason_of(error))
        raise
    except BaseException:  # Ctrl-C and SIGTERM
        shared.release(trial._trial_id)
        raise


def reason_of(error: BaseException) -> str:
    """Return why a trial failed, in one line."""
    while isinstance(error.__cause__, Exception) and not isinstance(error, HeedError):
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def finished_objectives(folder: Path, settings: SweepSettings) -> list[float] | None:
    """Return the objectives of a trial whose worker died after writing the results, else None."""
    results = folder / RESULTS
    return objective_values(read_results(results), settings.objectives) if results.exists() else None
