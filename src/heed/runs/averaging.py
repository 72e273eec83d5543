"""Average the weights of models and checkpoints (Polyak and Juditsky 1992)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heed.errors import HeedError
from heed.files import check_regular
from heed.inference import model_folder
from heed.inference.model_folder import ModelFolder, check_architecture, check_finite
from heed.run_format import check_run_format
from heed.runs.checkpoints import FORMAT_KEY, check_undamaged
from heed.runs.config import changed_options

EMA_STATE = "ema"
"""Key of `heed.training.callbacks.ema.EMA` under ``callbacks`` in a checkpoint."""


@dataclass(frozen=True)
class WeightSource:
    """Weights to average: a checkpoint, or the final model of a run or model folder."""

    path: Path
    folder: Path  # the model folder that belongs to these weights
    ema: bool = False  # use the moving average in the checkpoint


def average(sources: Sequence[WeightSource]) -> ModelFolder:
    """Return the first source's model with the mean weights of all sources.

    Raises:
        HeedError: if tokenizers or architectures differ, or weights cannot be read.
    """
    folders = {source.folder: model_folder.load(source.folder) for source in sources}
    (first, averaged), *others = folders.items()
    for path, other in others:
        if other.tokenizer.digest != averaged.tokenizer.digest:
            raise HeedError(
                f"{first} and {path} have different tokenizers: only weights for the same tokenizer can be averaged."
            )
        mine, theirs = ({key: folder.config[key] for key in ("family", "model")} for folder in (averaged, other))
        if different := changed_options(mine, theirs):
            raise HeedError(
                f"{first} and {path} have different architectures ({', '.join(different)}): only weights of the same "
                "architecture can be averaged."
            )

    def read(source: WeightSource) -> Mapping[str, Tensor]:
        is_model, folder = source.path.is_dir(), folders[source.folder]
        weights = folder.model.state_dict() if is_model else checkpoint_weights(source.path, ema=source.ema)
        check_architecture(weights, averaged.model.state_dict(), source.path)
        return weights

    averaged.model.load_state_dict(mean(map(read, sources)))
    return averaged


def checkpoint_weights(path: Path, *, ema: bool) -> dict[str, Tensor]:
    """Read the model's weights, or (``ema``) their moving average, from a checkpoint to the CPU.

    Raises:
        HeedError: if the file is not a checkpoint of heed, has another format, no moving average, or values that are
            not finite.
    """
    check_regular(path)
    try:
        check_undamaged(path)
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:  # of the file system, or of torch for a truncated file
        raise HeedError(f"{path} cannot be read, or is damaged ({error.strerror}).") from error
    except Exception as error:  # a damaged pickle can raise any exception
        raise HeedError(f"{path} is damaged, or not a checkpoint of heed.") from error
    if ema and EMA_STATE not in _part(checkpoint, "callbacks", path):
        raise HeedError(f"{path} holds no moving average: its run had no callbacks.ema.decay=DECAY.")
    state = _part(checkpoint["callbacks"][EMA_STATE], "weights", path) if ema else _part(checkpoint, "state_dict", path)
    weights = {str(name).removeprefix("model."): tensor for name, tensor in state.items()}
    if wrong := [name for name, tensor in weights.items() if not isinstance(tensor, Tensor)]:
        raise HeedError(f"{path} is not a checkpoint of heed: {wrong[0]} is not a tensor.")
    check_run_format(checkpoint.get(FORMAT_KEY), path)
    check_finite(weights, path)
    return weights


def _part(checkpoint: object, key: str, path: Path) -> dict[str, Any]:
    """Return the mapping under ``key`` in a checkpoint or a part of one."""
    part = checkpoint.get(key) if isinstance(checkpoint, dict) else None
    if not isinstance(part, dict):
        raise HeedError(f"{path} is not a checkpoint of heed: it has no {key}.")
    return part


def mean(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of weights, summed in float64, with one state in memory at a time."""
    total: dict[str, Tensor] = {}
    state: Mapping[str, Tensor] = {}
    for count, state in enumerate(states, start=1):  # noqa: B007
        for name, tensor in state.items():
            total[name] = total[name] + tensor if name in total else tensor.double()
    return {name: (total[name] / count).to(tensor.dtype) for name, tensor in state.items()}
