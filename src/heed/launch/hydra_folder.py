"""``.hydra/`` in a run folder: the composed configuration and the overrides, where users of Hydra look for them."""

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from heed.files import replacing
from heed.runs.claim import HYDRA_FOLDER


def write_hydra_folder(cfg: Any, folder: Path) -> None:
    """Write ``.hydra/{config,hydra,overrides}.yaml`` as Hydra does.

    Hydra itself would write them before heed has claimed a folder for the run.

    Args:
        cfg: Hydra's DictConfig without its own options; beartype cannot check the type.
    """
    hydra = HydraConfig.instance().cfg
    assert hydra is not None
    nodes = {"config": cfg, "hydra": hydra, "overrides": hydra.hydra.overrides.task}
    (folder / HYDRA_FOLDER).mkdir(exist_ok=True)
    for name, node in nodes.items():
        with replacing(folder / HYDRA_FOLDER / f"{name}.yaml") as partial:
            partial.write_text(OmegaConf.to_yaml(node), encoding="utf-8")
