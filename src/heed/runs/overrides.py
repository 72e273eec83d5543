"""The overrides of a run, and those that a grid varies."""

from pathlib import Path

import yaml

from heed.files import read_yaml
from heed.runs.claim import HYDRA_FOLDER

OVERRIDES = f"{HYDRA_FOLDER}/overrides.yaml"
"""The file with a run's overrides, a list of ``key=value``."""
GRID = "multirun.yaml"
"""Written by Hydra in the folder of a grid: its options, with the overrides as the user gave them."""


def read_overrides(run: Path) -> list[str]:
    """Return the overrides of a run; none if the file is missing or cannot be read."""
    try:
        overrides = yaml.safe_load((run / OVERRIDES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    return [str(override) for override in overrides] if isinstance(overrides, list) else []


def read_varied_overrides(run: Path) -> list[str] | None:
    """Return the overrides of a grid's job that the grid varies; None if the run is not a job of a grid."""
    if not (run.parent / GRID).is_file():
        return None
    of_grid = read_yaml(run.parent / GRID)["hydra"]["overrides"]["task"]
    return [override for override in read_overrides(run) if override not in of_grid]
