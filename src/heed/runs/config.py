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
    "max_skipped_steps",
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
    """Return the top-level options outside `CONTROL` that differ between a run's config and that of its resumption."""
    return [
        key for key, value in now.items() if key not in CONTROL and _comparable(value) != _comparable(before.get(key))
    ]


def config_hash(config: Mapping[str, Any]) -> str:
    """Return a digest of all options that change what is computed."""
    kept = {key: _comparable(value) for key, value in config.items() if key not in CONTROL}
    kept["limits"] = {key: config["trainer"].get(key) for key in ("max_steps", "max_epochs", "max_time")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _comparable(option: Any) -> Any:
    """Return an option without what does not change the computation: cache folders, and the modules of classes."""
    if not isinstance(option, Mapping):
        return option
    kept = {key: _comparable(value) for key, value in option.items() if key != "cache_dir"}
    if isinstance(kept.get("_target_"), str):
        kept["_target_"] = kept["_target_"].rpartition(".")[2]  # modules move between versions
    return kept
