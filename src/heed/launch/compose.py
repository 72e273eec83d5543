"""Compose the configuration of a run inside a program, as ``train.py`` does on its command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict

from heed.launch.schema import CONF


def compose(overrides: Sequence[str], *, folder: Path = Path("unused")) -> Any:
    """Return the configuration that ``train.py OVERRIDES`` composes, a DictConfig, and make it Hydra's current one.

    Args:
        folder: of the run.
    """
    cfg = compose_with_hydra([*overrides, f"hydra.runtime.output_dir='{folder}'"])
    HydraConfig.instance().set_config(cfg)  # read by interpolations such as ${hydra:runtime.choices.model}
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg


def compose_with_hydra(overrides: Sequence[str]) -> Any:
    """Return the configuration with Hydra's own options, also while a job of Hydra runs."""
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return hydra.compose("train", list(overrides), return_hydra_config=True)
    finally:
        GlobalHydra.instance().hydra = running
