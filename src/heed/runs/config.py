"""``config.yaml`` of a run folder: the run's resolved options."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.files import read_yaml, replacing, yaml_text
from heed.renamed import RENAMED, rename_keys

CONFIG = "config.yaml"

CONTROL = (
    "resume", "ckpt_path", "trainer", "callbacks", "logger", "debug", "experiment", "cache_dir", "test",
    "license", "data.preparation", "data.command", "data.num_jobs", "module.max_skipped_steps",
    "module.activation_checkpointing", "module.compile",
)  # fmt: skip
"""Options that do not change the result of a training step, so that a resumed run may change them."""


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
    with replacing(run / CONFIG, durable=True) as partial:
        partial.write_text(yaml_text(dict(config)), encoding="utf-8")


def changed_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the options outside `CONTROL` that differ between a run's config and that of its resumption."""
    return [name for key in now for name in _differences(key, before.get(key), now[key])]


def config_hash(config: Mapping[str, Any]) -> str:
    """Return a digest of all options that change what is computed."""
    kept = dict(_effective(config))
    kept["limits"] = {key: config["trainer"].get(key) for key in ("max_steps", "max_epochs", "max_time")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _differences(name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield the names of the options that differ; for an object of another class, only its own name."""
    if _is_control(name):
        return
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        if before != now:
            yield name
    elif "_target_" in before and "_target_" in now and _class_name(before) != _class_name(now):
        yield name
    else:
        for key in {**now, **before}:
            if not key.startswith("_"):
                yield from _differences(f"{name}.{key}", before.get(key), now.get(key))


def _effective(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the options that change the computation, with their dotted names."""
    for key, option in config.items():
        name = f"{prefix}{key}"
        if _is_control(name):
            continue
        if isinstance(option, Mapping):
            yield from _effective(option, f"{name}.")
        else:
            yield name, _class_name(config) if key == "_target_" else option


def _is_control(name: str) -> bool:
    return name in CONTROL or name.rpartition(".")[2] == "cache_dir"


def _class_name(config: Mapping[str, Any]) -> str:
    """Return the class of an object without its module, because modules move between versions."""
    return str(config["_target_"]).rpartition(".")[2]
