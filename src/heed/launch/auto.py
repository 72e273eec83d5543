"""Settle the options whose value is ``auto`` by the number of training pairs, with the table conf/auto.yaml."""

import math
from collections.abc import Callable
from typing import Any

import yaml
from hydra.utils import get_object
from omegaconf import OmegaConf

from heed.launch.compose import Config
from heed.launch.program import CONF
from heed.options import format_value

AUTO = "auto"
TYPICAL_PAIRS = 30_000
"""The size for which a configuration is checked before its text is read."""


def settle_auto(cfg: Config, count_pairs: Callable[[], int]) -> dict[str, str]:
    """Give the options that are ``auto`` the values of the nearest number of pairs in the table.

    Numbers are compared by their ratio. ``count_pairs`` is not called if no option of the table is ``auto``. A run that
    is limited by steps or time needs no limit of epochs.

    Returns:
        What was chosen, under "Auto", for the lines before a run; nothing if no option is ``auto``.
    """
    limits = cfg.trainer
    if limits.get("max_epochs") == AUTO and (limits.get("max_steps") or limits.get("max_time")):
        limits.max_epochs = None
    rows = _read_rows(cfg.model.get("_target_"))
    names = [name for name in rows[0][1] if OmegaConf.select(cfg, name, default=None) == AUTO]
    if not names:
        return {}
    pairs = count_pairs()
    _, values = min(rows, key=lambda row: abs(math.log(row[0] / max(pairs, 1))))
    for name in names:
        OmegaConf.update(cfg, name, values[name])
    chosen = " ".join(f"{name}={format_value(values[name])}" for name in names)
    return {"Auto": f"{chosen} (for {pairs:,} pairs)"}


def _read_rows(model: str | None) -> list[tuple[int, dict[str, Any]]]:
    """Return the numbers of pairs in the table, each with the options for the family of a model."""
    table = yaml.safe_load((CONF / "auto.yaml").read_text(encoding="utf-8"))
    sizes = table.pop("pairs")
    options = table.get(getattr(get_object(model), "family", None), {}) if model else {}
    return [(size, {name: values[row] for name, values in options.items()}) for row, size in enumerate(sizes)]
