"""Check the parts of a run without memory or data, so that mistakes surface in seconds."""

from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.launch.configuration import build_parts
from heed.launch.model import build_on_meta
from heed.launch.weights import check_weights_option
from heed.models.seq2seq import ModelConfig
from heed.training.activation_checkpointing import checkpoint_layers


def dry_run(cfg: Any) -> None:
    """Build the parts of a run, the model on the meta device with its optimizer and schedule, and check ``weights=``.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.

    Raises:
        HeedError: if an option is wrong, or if options contradict each other.
    """
    parts = build_parts(cfg)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    _check_test_set(config)
    check_weights_option(config["weights"], config["trainer"], parts["callbacks"].values())
    model = build_on_meta(parts["model"], src_vocab=8, tgt_vocab=8, joint=True)
    if config["module"]["activation_checkpointing"]:
        checkpoint_layers(model)
    try:
        parts["optimizer"]([{"params": list(model.parameters())}])
    except (TypeError, ValueError) as error:
        raise HeedError(f"optimizer: {error}") from error
    parts["schedule"](0)


def _check_test_set(config: Mapping[str, Any]) -> None:
    """Raise a HeedError if a test set is wanted and there is none."""
    data = config["data"]
    options = {"data.test": data.get("test", ""), "data.splits.test": data.get("splits", {}).get("test", "")}
    if config["test"] and (missing := [name for name, value in options.items() if value is None]):
        raise HeedError(f"{missing[0]}=null: there is no test set. Add test=false, or give one.")


def check_precision(architecture: ModelConfig, *, precision: str, device: str) -> None:
    """Check that this kind of device can train the model in this precision.

    Raises:
        HeedError: for an LSTM in fp16 on a CPU, which oneDNN does not have.
    """
    if (device, precision) == ("cpu", "16-mixed") and getattr(architecture, "cell", None) == "lstm":
        raise HeedError(
            "trainer.precision=16-mixed cannot train model.cell=lstm on a CPU: choose trainer.precision=bf16-mixed or "
            "32-true, or model.cell=gru."
        )
