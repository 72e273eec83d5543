"""Check the parts of a run without memory or data, so that mistakes surface in seconds."""

from collections.abc import Callable, Mapping
from typing import Any

from heed.errors import HeedError
from heed.launch.assemble import build_on_meta
from heed.launch.weights import check_weights_option
from heed.models.seq2seq import ModelConfig


def dry_run(
    architecture: ModelConfig,
    optimizer: Callable[..., Any],
    schedule: Callable[[int], float],
    weights: str,
    callbacks: Mapping[str, Any],
) -> None:
    """Build the model on the meta device with its optimizer and schedule, and check ``weights=``.

    Args:
        callbacks: the options of ``callbacks``.

    Raises:
        HeedError: if one of them refuses its options.
    """
    check_weights_option(weights, callbacks)
    model = build_on_meta(architecture, src_vocab=8, tgt_vocab=8, joint=True)
    try:
        optimizer([{"params": list(model.parameters())}])
    except (TypeError, ValueError) as error:
        raise HeedError(f"optimizer: {error}") from error
    schedule(0)


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
