"""Try the parts of a run without memory or data, so that mistakes surface in seconds."""

from typing import Any

from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.launch.configuration import build_parts
from heed.launch.model import build_on_meta
from heed.launch.weights import check_weights_option


def dry_run(cfg: Any) -> None:
    """Build the parts of a run, the model on the meta device with its optimizer and schedule, and check ``weights=``.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.

    Raises:
        HeedError: if an option is wrong, or if options contradict each other.
    """
    parts = build_parts(cfg)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    check_weights_option(config["weights"], config["trainer"], parts["callbacks"].values())
    model = build_on_meta(parts["model"], src_vocab=8, tgt_vocab=8, joint=True)
    try:
        parts["optimizer"]([{"params": list(model.parameters())}])
    except (TypeError, ValueError) as error:
        raise HeedError(f"optimizer: {error}") from error
    parts["schedule"](0)
