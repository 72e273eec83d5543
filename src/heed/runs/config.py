"""The options of a run: ``config.yaml`` in its folder, and the overrides of its command."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

from heed.errors import HeedError
from heed.files import read_yaml, write_file, yaml_text

RUN_CONFIG = "config.yaml"
CONFIG_LIMIT = 2**22
"""Maximum bytes of ``config.yaml``, which may name thousands of files."""
HYDRA_FOLDER = ".hydra"
OVERRIDES = f"{HYDRA_FOLDER}/overrides.yaml"
"""The file with a run's overrides, a list of ``key=value``."""
GRID_FILE = "multirun.yaml"
"""Hydra's file in the folder of a grid: its options, with the overrides as the user gave them."""

Role = Literal["harmless", "limit", "seed", "text", "model", "condition"]
_ROLES: Any = tomllib.loads(Path(__file__).with_name("roles.toml").read_text(encoding="utf-8"))
ROLES: Mapping[str, Role] = {name: role for role, names in _ROLES.items() for name in names}
"""What options and whole groups change: ``roles.toml``. All other options are conditions."""


def role(name: str) -> Role:
    """Return what an option, such as "model.dropout", changes."""
    parts = name.split(".")
    groups = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    if found := next((ROLES[group] for group in groups if group in ROLES), None):
        return found
    # Other options of a text in a mixture, such as its weight, are conditions.
    return "text" if name == "data.train" or parts[-1] == "files" else "condition"


def read_config(run: Path) -> dict[str, Any]:
    """Return a run's options; raise a HeedError without a readable config.yaml."""
    return read_yaml(run / RUN_CONFIG, limit=CONFIG_LIMIT)


def find_config(run: Path) -> dict[str, Any] | None:
    """Return the options of a run, or None if ``run`` is not a run or its config cannot be read."""
    try:
        config = read_config(run)
    except HeedError:
        return None
    # A model folder has a config.yaml too.
    return config if "seed" in config else None


def write_config(run: Path, config: Mapping[str, Any]) -> None:
    """Write ``config.yaml``."""
    write_file(run / RUN_CONFIG, yaml_text(dict(config)), durable=True)


def read_overrides(run: Path) -> list[str]:
    """Return the overrides of a run, or an empty list if the file cannot be read."""
    try:
        overrides = yaml.safe_load((run / OVERRIDES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    return [str(override) for override in overrides] if isinstance(overrides, list) else []


def read_varied_overrides(run: Path) -> list[str] | None:
    """Return the overrides that vary within the run's grid, or None if the run is not a job of a grid."""
    if not (run.parent / GRID_FILE).is_file():
        return None
    of_grid = read_yaml(run.parent / GRID_FILE, limit=CONFIG_LIMIT)["hydra"]["overrides"]["task"]
    return [override for override in read_overrides(run) if override not in of_grid]


def changed_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the options that differ but must not change in a resumed run. Of a new class, name only the object."""
    old, new = effective_options(before), effective_options(now)
    names = [name for name in {**new, **old} if role(name) != "limit" and old.get(name) != new.get(name)]
    others = [name.removesuffix("_target_") for name in names if name.endswith("._target_")]
    found = (next((other[:-1] for other in others if name.startswith(other)), name) for name in names)
    return list(dict.fromkeys(found))


def effective_options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the options that change what is computed, by their dotted names."""
    found: dict[str, Any] = {}
    for key, option in config.items():
        name = f"{prefix}{key}"
        if isinstance(option, Mapping):
            found |= effective_options(option, f"{name}.")
        elif role(name) != "harmless":
            # Of a class without its module, because classes move between modules.
            found[name] = str(option).rpartition(".")[2] if key == "_target_" else option
    return found


def config_digest(config: Mapping[str, Any]) -> str:
    """Return a digest of all options that change what is computed."""
    return hashlib.sha256(json.dumps(effective_options(config), sort_keys=True).encode()).hexdigest()[:16]
