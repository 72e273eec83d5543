"""The self-contained folder a trained model lives in: weights, plain config, tokenizer. It translates anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import Tensor

from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.files import replacing, writing
from heed.models import FAMILIES
from heed.models.seq2seq import Seq2Seq

WEIGHTS, CONFIG = "model.safetensors", "config.yaml"


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder holds."""

    model: Seq2Seq
    tokenizer: Tokenizer
    config: dict[str, Any]
    """``family``, ``model``, ``src_lang``, ``tgt_lang``, ``search``: plain data."""


def save(folder: Path, model: Seq2Seq, tokenizer: Tokenizer, *, extra: dict[str, Any]) -> None:
    """Write the folder; ``extra`` (languages, search settings, …) joins the config."""
    config = {"family": model.config.family, "model": model.config.to_plain(), **extra}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / WEIGHTS) as file:
            file.write_bytes(serialized(_tensors(model)))
        tokenizer.save(folder)
        # Last, since without it nothing here is taken for a model.
        with replacing(folder / CONFIG) as file:
            file.write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8")


def find(path: Path) -> Path:
    """The model folder meant by a run folder, its ``model/``, or any copy of that."""
    for folder in (path, path / "model"):
        if (folder / WEIGHTS).exists() and (folder / CONFIG).exists():
            return folder
    if not path.exists():
        raise HeedError(f"There is no folder {path}. Name a run (runs/NAME/TIME), its model folder, or a copy of it.")
    raise HeedError(
        f"{path} holds no model: {WEIGHTS} and {CONFIG} are looked for in it and in its model/ subfolder. "
        "A run writes them when it ends."
    )


def load(path: str | Path) -> ModelFolder:
    """The model, in eval mode on the CPU, with its tokenizer. Nothing the folder names is ever imported."""
    folder = find(Path(path))
    tokenizer = Tokenizer.load(folder)
    try:
        config = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
        family, plain = config["family"], config["model"]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise HeedError(f"{folder / CONFIG} is not the config of a heed model, or cut off: copy it again.") from error
    if family not in FAMILIES:
        raise HeedError(f"{folder / CONFIG} names the model family {family!r}; known are: {', '.join(FAMILIES)}.")
    try:
        model = (
            FAMILIES[family]
            .from_plain(plain)
            .build(src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=tokenizer.joint)
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise HeedError(f"{folder / CONFIG} does not describe a {family}: {error}.") from error
    load_weights(model, folder)
    return ModelFolder(model.eval(), tokenizer, config)


def load_weights(model: Seq2Seq, folder: Path) -> None:
    """Fill a model with the weights of a folder."""
    path = folder / WEIGHTS
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise HeedError(f"{path} is damaged or cut off ({error}): copy it again.") from error
    refuse_another_architecture(weights, _tensors(model), path)
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            tensor.copy_(weights[name])


def refuse_another_architecture(weights: Mapping[str, Tensor], own: Mapping[str, Tensor], path: Path) -> None:
    """Raise a HeedError unless the weights that came from ``path`` have the names and shapes of a model's ``own``."""
    wrong = weights.keys() ^ own.keys() | {
        name for name in weights.keys() & own.keys() if weights[name].shape != own[name].shape
    }
    if wrong:
        first = min(wrong)
        there, here = (_shape(side.get(first)) for side in (weights, own))
        raise HeedError(
            f"{path} holds the weights of another architecture: {len(wrong)} of them differ, such as {first}, "
            f"{there} there and {here} in this model. Give the settings of model and tokenizer it was trained with."
        )


def _shape(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else " × ".join(map(str, tensor.shape)) or "a number"


def _tensors(model: Seq2Seq) -> dict[str, Tensor]:
    """All weights by name; a tied table, which has several, under its first."""
    first: dict[int, str] = {}
    state = model.state_dict()
    return {name: tensor for name, tensor in state.items() if first.setdefault(tensor.data_ptr(), name) == name}
