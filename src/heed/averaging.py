"""Weights out of checkpoints, and the mean of several: nearer to a minimum than each (Polyak and Juditsky 1992)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor

from heed.errors import HeedError

EMA = "ema"
"""Under ``callbacks`` in a checkpoint: the state of `heed.training.ema.EMA`."""


def checkpoint_weights(path: Path, *, ema: bool) -> dict[str, Tensor]:
    """The model's weights by name, on the CPU: as they were, or (``ema``) their moving average."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        if ema:
            return dict(checkpoint["callbacks"][EMA]["weights"])
        return {name.removeprefix("model."): tensor for name, tensor in checkpoint["state_dict"].items()}
    except OSError as error:
        raise HeedError(f"{path} cannot be read ({error.strerror}): it is not there, or damaged.") from error
    except KeyError as error:
        if error.args == (EMA,):
            raise HeedError(f"{path} holds no moving average: its run was not told callbacks.ema=DECAY.") from error
        raise HeedError(f"{path} is no checkpoint of heed: it has no {error}.") from error
    except (EOFError, RuntimeError, TypeError, AttributeError, UnpicklingError) as error:
        raise HeedError(f"{path} is no checkpoint of heed, or a damaged one.") from error


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
