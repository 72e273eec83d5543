"""Settle the options whose value is ``auto`` by the number of training pairs, with the table conf/auto.yaml."""

import math
from collections.abc import Callable

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
    table = yaml.safe_load((CONF / "auto.yaml").read_text(encoding="utf-8"))
    model = cfg.model.get("_target_")
    options = table.get(getattr(get_object(model), "family", None), {}) if model else {}
    names = [name for name in options if OmegaConf.select(cfg, name, default=None) == AUTO]
    if not names:
        return {}
    pairs = count_pairs()
    _, row = min((abs(math.log(size / max(pairs, 1))), row) for row, size in enumerate(table["pairs"]))
    for name in names:
        OmegaConf.update(cfg, name, options[name][row])
    chosen = " ".join(f"{name}={format_value(options[name][row])}" for name in names)
    return {"Auto": f"{chosen} (for {pairs:,} pairs)"}
