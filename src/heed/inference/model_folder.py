"""The self-contained folder a trained model lives in: weights, plain config, tokenizer. It translates anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import Tensor

from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.evaluation.alignment import Extraction
from heed.files import check_regular, read_yaml, replacing, writing, yaml_text
from heed.models import FAMILIES, build_model
from heed.models.seq2seq import ModelConfig, Seq2Seq
from heed.options import from_plain, shown

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
            file.write_text(yaml_text(config), encoding="utf-8")


def find(path: Path) -> Path:
    """The model folder meant by a run folder, its ``model/``, or any copy of that."""
    try:
        for folder in (path, path / "model"):
            if (folder / WEIGHTS).exists() and (folder / CONFIG).exists():
                return folder
        there = path.exists()
    except OSError as error:  # no permission, or a name no file system allows
        raise HeedError(f"{path} cannot be read: {error.strerror}.") from error
    if not there:
        raise HeedError(f"There is no folder {path}. Name a run (runs/NAME/TIME), its model folder, or a copy of it.")
    raise HeedError(
        f"{path} holds no model: {WEIGHTS} and {CONFIG} are looked for in it and in its model/ subfolder. "
        "A run writes them when it ends."
    )


def load(path: str | Path) -> ModelFolder:
    """The model, in eval mode on the CPU, with its tokenizer.

    The folder is not trusted: nothing it names is imported, and nothing is allocated before its parts fit together.

    Raises:
        HeedError: if a part of the folder is missing, damaged or does not fit the others.
    """
    folder = find(Path(path))
    config = read_yaml(folder / CONFIG)
    architecture = _architecture(config, folder / CONFIG)
    tokenizer = Tokenizer.load(folder)
    build = partial(
        build_model, architecture, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=tokenizer.joint
    )
    expected = _shapes(folder / WEIGHTS)
    _check_sizes(architecture, expected, folder)
    try:
        with torch.device("meta"):
            empty = build()
    except (RuntimeError, OverflowError, TypeError, ValueError) as error:
        raise HeedError(
            f"{folder / CONFIG} does not describe a {architecture.family}: {' '.join(str(error).split())}"
        ) from error
    refuse_another_architecture(expected, _tensors(empty), folder / WEIGHTS)
    model = build()
    load_weights(model, folder)
    return ModelFolder(model.eval(), tokenizer, config)


def _architecture(config: Mapping[str, Any], path: Path) -> ModelConfig:
    """The model's configuration, after a check of all of the folder's that is not about search."""
    if missing := [key for key in ("family", "model") if key not in config]:
        raise HeedError(f"{path} is not the config of a heed model: it has no {' and no '.join(missing)}.")
    family = config["family"]
    if not isinstance(family, str) or family not in FAMILIES:
        raise HeedError(f"{path} names the model family {shown(family)}; known are: {', '.join(FAMILIES)}.")
    for key in ("src_lang", "tgt_lang"):
        if not isinstance(config.get(key, ""), str):
            raise HeedError(f"{path}: {key}={shown(config[key])} must be text.")
    try:
        if config.get("alignment"):
            from_plain(Extraction, config["alignment"], where="alignment.")
        return FAMILIES[family].from_plain(config["model"])
    except HeedError as error:
        raise HeedError(f"{path}: {error}") from error


def _shapes(path: Path) -> dict[str, Tensor]:
    """A folder's weights as tensors without memory, from the file's header."""
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
            shapes = {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}
    except (SafetensorError, OSError) as error:
        raise HeedError(f"{path} is damaged or cut off ({error}): copy it again.") from error
    for name, (dtype, _) in shapes.items():
        if dtype not in DTYPES:
            raise HeedError(f"{path} holds {name} as {dtype}: heed reads {', '.join(DTYPES)}.")
    return {name: torch.empty(shape, device="meta") for name, (_, shape) in shapes.items()}


DTYPES = ("F64", "F32", "F16", "BF16")
"""Of weights, by safetensors' names."""


def _check_sizes(architecture: ModelConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse a configuration whose model would be larger than its weights, before anything is built."""
    values = sum(tensor.numel() for tensor in weights.values())
    if architecture.depth > len(weights) or architecture.width > values:
        raise HeedError(
            f"{folder / CONFIG} describes a model with {architecture.depth:,} layers and sizes up to "
            f"{architecture.width:,}, but {WEIGHTS} has {len(weights):,} tensors with {values:,} values: "
            "they are of different models, copy both again."
        )


def load_weights(model: Seq2Seq, folder: Path) -> None:
    """Fill a model with the weights of a folder.

    Raises:
        HeedError: if they are of another architecture, or not finite.
    """
    path = folder / WEIGHTS
    refuse_another_architecture(_shapes(path), _tensors(model), path)
    weights = load_file(path)
    refuse_not_finite(weights, path)
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            tensor.copy_(weights[name])


def refuse_not_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise a HeedError if a value is NaN or infinite: such a model translates everything into nothing."""
    for name, tensor in weights.items():
        # A sum is much faster than isfinite, and not finite if a value is not.
        if not tensor.sum().isfinite() and (wrong := int((~tensor.isfinite()).sum())):
            raise HeedError(
                f"{path} holds weights that are not numbers: {wrong:,} of {tensor.numel():,} values of {name} are NaN "
                "or infinite. Its training diverged: use an earlier checkpoint, or train again with a smaller "
                "learning rate."
            )


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
    # Variables rather than their data: two names of one table are then one object, on the meta device too.
    state = model.state_dict(keep_vars=True)
    return {name: tensor.detach() for name, tensor in state.items() if first.setdefault(id(tensor), name) == name}
