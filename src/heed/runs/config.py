"""``config.yaml`` of a run folder: the run's resolved options."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.files import read_yaml, replacing, yaml_text
from heed.renamed import RENAMED, rename_keys

CONFIG = "config.yaml"

CONTROL = (
    "resume", "ckpt_path", "trainer", "callbacks", "logger", "debug", "experiment", "cache_dir", "test",
    "module.max_skipped_steps",
)  # fmt: skip
"""Options that do not change what a training step computes: a resumed run may change them."""


def read_config(run: Path) -> dict[str, Any]:
    """Return a run's options, under their present names.

    Raises:
        HeedError: if there is no readable config.yaml.
    """
    return rename_keys(read_yaml(run / CONFIG), RENAMED)


def find_config(run: Path) -> dict[str, Any] | None:
    """Return the options of a run, or None where the folder is not a run's or its config cannot be read."""
    try:
        config = read_config(run)
    except HeedError:
        return None
    # A model folder has a config.yaml too.
    return config if "seed" in config else None


def write_config(run: Path, config: Mapping[str, Any]) -> None:
    """Write ``config.yaml``."""
    with replacing(run / CONFIG) as partial:
        partial.write_text(yaml_text(dict(config)), encoding="utf-8")


def changed_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the options outside `CONTROL` that differ between a run's config and that of its resumption."""
    old, new = _flat(before), _flat(now)
    return [name for name in new | old if name.partition(".")[0] in now and _changed(name, old, new)]


def config_hash(config: Mapping[str, Any]) -> str:
    """Return a digest of all options that change what is computed."""
    kept: dict[str, Any] = _flat(config)
    kept["limits"] = {key: config["trainer"].get(key) for key in ("max_steps", "max_epochs", "max_time")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _changed(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if name.rpartition(".")[2].startswith("_") and not (name in old and name in new):
        return False  # how to build an object: older configs have options at the root that belong to an object now
    return bool(old.get(name) != new.get(name))


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the options that change the computation, by dotted name: not cache folders and modules of classes."""
    found = {}
    for key, option in config.items():
        name = f"{prefix}{key}"
        if name in CONTROL or key == "cache_dir":
            continue
        if isinstance(option, Mapping):
            found |= _flat(option, f"{name}.")
        else:
            # Modules move between versions.
            found[name] = option.rpartition(".")[2] if key == "_target_" and isinstance(option, str) else option
    return found
