"""Weights out of checkpoints, and the mean of several: nearer to a minimum than each (Polyak and Juditsky 1992)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heed.errors import HeedError
from heed.files import check_regular
from heed.inference.model_folder import refuse_not_finite
from heed.runs.checkpoint_format import check_checkpoint_format

EMA = "ema"
"""Under ``callbacks`` in a checkpoint: the state of `heed.training.callbacks.ema.EMA`."""


def checkpoint_weights(path: Path, *, ema: bool) -> dict[str, Tensor]:
    """The model's weights by name, on the CPU: as they were, or (``ema``) their moving average.

    Raises:
        HeedError: if the file is no checkpoint of heed, has another format or no moving average, or holds
            values that are not finite.
    """
    check_regular(path)
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise HeedError(f"{path} cannot be read ({error.strerror}): it is not there, or damaged.") from error
    except Exception as error:  # a damaged pickle can end in any
        raise HeedError(f"{path} is no checkpoint of heed, or a damaged one.") from error
    if ema and EMA not in _part(checkpoint, "callbacks", path):
        raise HeedError(f"{path} holds no moving average: its run had no callbacks.ema=DECAY.")
    state = _part(checkpoint["callbacks"][EMA], "weights", path) if ema else _part(checkpoint, "state_dict", path)
    weights = {str(name).removeprefix("model."): tensor for name, tensor in state.items()}
    if foreign := [name for name, tensor in weights.items() if not isinstance(tensor, Tensor)]:
        raise HeedError(f"{path} is no checkpoint of heed: {foreign[0]} is not a tensor.")
    check_checkpoint_format(
        checkpoint, path, if_older="whose parameters have other names: use the model folder of its run instead."
    )
    refuse_not_finite(weights, path)
    return weights


def _part(checkpoint: object, key: str, path: Path) -> dict[str, Any]:
    """What stands under ``key`` of a checkpoint, or of a part of one."""
    part = checkpoint.get(key) if isinstance(checkpoint, dict) else None
    if not isinstance(part, dict):
        raise HeedError(f"{path} is no checkpoint of heed: it has no {key}.")
    return part


def mean(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of weights of one architecture, summed in float64, one of the states in memory at a time."""
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    count = 0
    for state in states:
        count += 1
        for name, tensor in state.items():
            total[name] = total[name] + tensor if name in total else tensor.double()
            dtypes[name] = tensor.dtype
    return {name: (tensor / count).to(dtypes[name]) for name, tensor in total.items()}
