"""A run that is a trial of a search: its options, its early end and its objectives."""

from collections.abc import Mapping
from typing import Any

from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import Callback
from omegaconf import OmegaConf, open_dict

from heed.errors import HeedError
from heed.runs.objectives import objective_values
from heed.training.callbacks.pruning import Pruning, Report


def take_sweep_options(cfg: Any) -> dict[str, Any] | None:
    """Remove the options of the search from the configuration and return them; None for a run outside a search.

    They are not options of the run: a study with more trials must not change the config of its trials.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.

    Raises:
        HeedError: if there are options of a search, but the run is no trial.
    """
    with open_dict(cfg):
        node = cfg.pop("sweep", None)
    if node is None:
        return None
    options: Any = OmegaConf.to_container(node, resolve=True)
    if not isinstance(options, dict) or options.get("trial") is None:
        choice = HydraConfig.get().runtime.choices.get("sweep")
        raise HeedError(f"sweep={choice} searches over many runs: add -m to start them.")
    return options


def trial_callbacks(sweep: Mapping[str, Any] | None, report: Report | None) -> list[Callback]:
    """Return the callback that reports a trial's validations and ends it early. All processes of a run need it.

    There is none if validations do not measure the objective, or if there are several.
    """
    if sweep is None or len(names := _names(sweep)) > 1 or not names[0].startswith("valid."):
        return []
    return [Pruning(names[0].removeprefix("valid."), report)]


def objectives(sweep: Mapping[str, Any] | None, results: Mapping[str, Any] | None) -> list[float] | None:
    """Return the objectives of a finished trial, else None."""
    return None if sweep is None or results is None else objective_values(results, _names(sweep))


def _names(sweep: Mapping[str, Any]) -> list[str]:
    objective = sweep["objective"]
    return [objective] if isinstance(objective, str) else list(objective)
