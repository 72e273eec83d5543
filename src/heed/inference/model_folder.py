"""Model folders: save and load a trained model with its configuration and tokenizer.

A model folder is self-contained and can be copied to another machine:

    model.safetensors   weights
    config.yaml         format number, model family, architecture, languages, search settings, digest of the weights
    tokenizer.model     or src.model and tgt.model
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Len
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialize
from torch import Tensor
from torch.nn.functional import embedding_bag
from torch.overrides import TorchFunctionMode

from heed.data.pairs.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.evaluation.alignment import Extraction
from heed.files import check_regular, read_yaml, write_file, writing, yaml_text
from heed.models import FAMILIES, build_model
from heed.models.seq2seq import ModelConfig, Seq2Seq, TrainableSeq2Seq
from heed.options import find_wrong_values, format_value, from_plain, raise_problems
from heed.run_format import RUN_FORMAT, check_run_format

WEIGHTS, CONFIG = "model.safetensors", "config.yaml"

DIGEST = "weights_digest"
"""The key of ``config.yaml`` with the SHA-256 digest of ``model.safetensors``. Without it, weights are not checked."""

VOCABULARY_WEIGHTS = {"src_embedding.weight": 0, "tgt_embedding.weight": 1, "output.weight": 1, "output_bias": 1}
"""Weights with a row for each piece: of the source vocabulary (0) or the target vocabulary (1)."""

EXPORT_DESCRIPTION = "heed.json"
"""File of an export that describes its content, like the config of a model folder."""

LANGUAGES = {"src_lang": str, "tgt_lang": str, "directions": list[Annotated[list[str], Len(2, 2)]]}
"""Keys of ``config.yaml`` and of ``heed.json``, and their types."""

DTYPES = ("F64", "F32", "F16", "BF16")
"""Supported types of weights, by their safetensors names."""


@dataclass(frozen=True)
class ModelFolder:
    """The content of a model folder."""

    model: Seq2Seq
    tokenizer: Tokenizer
    config: dict[str, Any]
    """``config.yaml`` as plain data: ``format``, ``family``, ``model``, ``src_lang``, ``tgt_lang``, ``search`` …"""


def save(folder: Path, model: Seq2Seq, tokenizer: Tokenizer, *, extra: Mapping[str, Any]) -> None:
    """Write a model folder.

    Args:
        folder: created if it does not exist.
        extra: further keys of ``config.yaml``, for example the languages and search settings.
    """
    header = {"format": RUN_FORMAT, "family": model.config.family, "model": model.config.to_plain()}
    config = {**header, **extra, **header}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        weights = serialize(_parameters(model))
        config[DIGEST] = hashlib.sha256(weights).hexdigest()
        write_file(folder / WEIGHTS, weights, durable=True)
        tokenizer.save(folder)
        # Write the config last, so that `find` does not accept an incomplete folder.
        write_file(folder / CONFIG, yaml_text(config), durable=True)


def find(path: Path) -> Path:
    """Return the model folder at ``path``, itself or the subfolder of a run; raise a HeedError if there is none."""
    try:
        for folder in (path, path / "model"):
            if (folder / WEIGHTS).exists() and (folder / CONFIG).exists():
                return folder
        exists = path.exists()
    except OSError as error:  # for example no permission, or a name that is too long
        raise HeedError(f"{path} cannot be read: {error.strerror}.") from error
    if not exists:
        raise HeedError(f"There is no folder {path}: give a run (runs/NAME/TIME), its model folder, or a copy of it.")
    if runs := sorted(str(each.parents[1]) for stars in ("*", "*/*") for each in path.glob(f"{stars}/model/{WEIGHTS}")):
        raise HeedError(f"{path} is not a run but holds {len(runs)}: choose one, such as {runs[-1]}.")
    if path.suffix == ".ckpt":
        raise HeedError(
            f"{path} is a checkpoint, not a model: give its run, {path.parent.parent}, which has a model when it has "
            "ended, or start a new run from the checkpoint with ckpt_path=."
        )
    if path.is_file():
        its_folder = f"its folder, {path.parent}" if (path.parent / CONFIG).exists() else "the folder of a run or model"
        raise HeedError(f"{path} is a file: give {its_folder}.")
    if (path / "model.bin").exists():
        use = ", for heed translate, evaluate and serve" if is_export(path) else ""
        raise HeedError(f"{path} is an export for CTranslate2{use}: give {exported_from(path)}.")
    if is_huggingface(path):
        raise HeedError(f"{path} is a model for Hugging Face: heed import {path} --out DIR makes a model folder of it.")
    raise HeedError(
        f"{path} holds no model: neither it nor its subfolder model has {WEIGHTS} and {CONFIG}. "
        "A run writes them when it ends."
    )


def is_export(path: Path) -> bool:
    """Return whether ``heed export`` wrote a folder for an engine that heed translates with."""
    return all(os.path.isfile(path / name) for name in (EXPORT_DESCRIPTION, "model.bin"))  # noqa: PTH113 - never raises


def is_huggingface(path: Path) -> bool:
    """Return whether a folder has a model that ``heed import`` may read."""
    return (path / "config.json").is_file() and (path / "source.spm").is_file()


def exported_from(export: Path) -> str:
    """Return the run or model folder that holds an export, otherwise words for it."""
    folder = Path(os.path.normpath(export / "../.."))
    found = any((each / WEIGHTS).exists() for each in (folder, folder / "model"))
    return str(folder) if found else "the run or model folder that was exported"


def files(folder: Path) -> list[Path]:
    """Return the config, the weights and the tokenizer files of a model folder."""
    return [folder / CONFIG, folder / WEIGHTS, *sorted(folder.glob("*.model"))]


def digest(path: Path) -> str:
    """Return the digest of a model's config, weights and tokenizer. ``path``: a run, a model folder or an export."""
    total = hashlib.blake2b(digest_size=16)
    for each in sorted(filter(Path.is_file, path.iterdir())) if is_export(path) else files(find(path)):
        with each.open("rb") as file:
            total.update(each.name.encode() + hashlib.file_digest(file, "blake2b").digest())
    return total.hexdigest()


def load(path: str | Path) -> ModelFolder:
    """Load a model, in eval mode on the CPU, with its tokenizer and configuration.

    Loading is safe for untrusted folders. It imports nothing that the folder names, and checks that the configuration,
    the tokenizer and the weights match before allocating memory for the model.

    Args:
        path: a run, its model folder, or a copy of either.

    Raises:
        HeedError: if a file is missing or damaged, or the files do not match each other.
    """
    folder = find(Path(path))
    config, architecture = read_config(folder)
    tokenizer = Tokenizer.load(folder)
    saved = _read_shapes(folder / WEIGHTS)
    empty = build_empty(architecture, tokenizer, saved, folder / CONFIG)
    check_architecture(saved, _parameters(empty), folder / WEIGHTS)
    model = build_model(architecture, **tokenizer.vocabulary)
    _copy_weights(model, _read_weights(folder, config))
    return ModelFolder(model.eval(), tokenizer, config)


def build_empty(
    architecture: ModelConfig, tokenizer: Tokenizer, saved: Mapping[str, Tensor], path: Path
) -> TrainableSeq2Seq:
    """Return a model without memory for its weights.

    Raises:
        HeedError: if ``path`` describes another model than the one with the ``saved`` weights, or none.
    """
    values = sum(tensor.numel() for tensor in saved.values())
    if architecture.depth > len(saved) or architecture.width > values:  # building the model would be slow
        raise HeedError(
            f"{path} describes a model with {architecture.depth:,} layers and sizes up to {architecture.width:,}, but "
            f"its weights are {len(saved):,} tensors with {values:,} values: they belong to different models, copy "
            "both again."
        )
    try:
        with _WithoutMemory():
            return build_model(architecture, **tokenizer.vocabulary)
    except (RuntimeError, OverflowError, TypeError, ValueError) as error:
        raise HeedError(f"{path} does not describe a {architecture.family}: {' '.join(str(error).split())}") from error


def has_shapes_of(model: Seq2Seq, folder: Path) -> bool:
    """Return whether a model folder holds weights with the names and shapes of a model's weights."""
    return not _different_weights(_read_shapes(folder / WEIGHTS), _parameters(model))


def load_weights(model: Seq2Seq, folder: Path, spellings: Sequence[Sequence[Sequence[int]]]) -> None:
    """Copy a folder's weights into a model whose vocabulary may be another one; see `respelled_rows`.

    ``spellings``: of the source and target pieces of the model, in ids of the folder's tokenizer.

    Raises:
        HeedError: if the weights do not fit the model, or are damaged or not finite.
    """
    weights, own = _read_weights(folder, read_config(folder)[0]), _parameters(model)
    for name in VOCABULARY_WEIGHTS.keys() & weights.keys() & own.keys():
        weights[name] = respelled_rows(weights[name], own[name], spellings[VOCABULARY_WEIGHTS[name]])
    check_architecture(weights, own, folder / WEIGHTS)
    _copy_weights(model, weights)


def respelled_rows(
    old: Float[Tensor, "V *D"], fresh: Float[Tensor, "W *D"], spellings: Sequence[Sequence[int]]
) -> Float[Tensor, "W *D"]:
    """Return a row for each piece of a new vocabulary: the mean of the old rows that spell it, or its fresh row."""
    lengths = torch.tensor([len(ids) for ids in spellings])
    table = old.to(fresh.dtype).reshape(len(old), -1)
    offsets = lengths.cumsum(0) - lengths
    means = embedding_bag(torch.tensor([*chain(*spellings)]), table, offsets, mode="mean")
    return torch.where(lengths[:, None] > 0, means, fresh.reshape(len(fresh), -1)).reshape(fresh.shape)


def _read_weights(folder: Path, config: Mapping[str, Any]) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    _read_shapes(path)  # checks the file
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != config.get(DIGEST, digest):
        raise HeedError(
            f"{path} is damaged or was changed (it does not have the {DIGEST} of {CONFIG}): copy both again, or remove "
            f"{DIGEST} from {CONFIG} if you changed the weights yourself."
        )
    weights = load_file(path)
    check_finite(weights, path)
    return weights


def _copy_weights(model: Seq2Seq, weights: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in _parameters(model).items():
            tensor.copy_(weights[name])


def check_architecture(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], path: Path) -> None:
    """Raise a HeedError unless the weights read from ``path`` have the expected names and shapes."""
    if different := _different_weights(weights, expected):
        first = min(different)
        shapes = (side[first].shape if first in side else None for side in (weights, expected))
        there, here = ("missing" if s is None else " × ".join(map(str, s)) or "a scalar" for s in shapes)
        raise HeedError(
            f"{path} holds the weights of another architecture: {len(different)} weights differ, such as {first} "
            f"({there} there and {here} in this model). Use the model and tokenizer settings that it was trained with."
        )


def check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise a HeedError if a weight read from ``path`` is NaN or infinite."""
    for name, tensor in weights.items():
        # The sum is not finite if any value is not, and is cheaper than isfinite().
        if not tensor.sum().isfinite() and (wrong := int((~tensor.isfinite()).sum())):
            raise HeedError(
                f"{path} is unusable: {wrong:,} of {tensor.numel():,} values of {name} are NaN or infinite. "
                "Its training diverged: use an earlier checkpoint, or train again with a smaller learning rate."
            )


def read_config(folder: Path) -> tuple[dict[str, Any], ModelConfig]:
    """Return ``config.yaml`` and the architecture in it. Check everything except the search settings."""
    path = folder / CONFIG
    config = read_yaml(path)
    if missing := [key for key in ("format", "family", "model") if key not in config]:
        raise HeedError(f"{path} is not the config of a heed model: it has no {' and no '.join(missing)}.")
    check_run_format(config["format"], path)
    family = config["family"]
    if not isinstance(family, str) or family not in FAMILIES:
        raise HeedError(
            f"{path}: the model family {format_value(family)} is unknown: choose from {', '.join(FAMILIES)}."
        )
    try:
        raise_problems(find_wrong_values({**LANGUAGES, "base_model": dict[str, str | None] | None}, config, where=""))
        if config.get("alignment"):
            from_plain(Extraction, config["alignment"], where="alignment.")
        return config, FAMILIES[family].from_plain(config["model"])
    except HeedError as error:
        raise HeedError(f"{path}: {error}") from error


def _read_shapes(path: Path) -> dict[str, Tensor]:
    """Return the weights of a file as tensors on the meta device. Only the file's header is read."""
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
            headers = {name: (part.get_dtype(), part.get_shape()) for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise HeedError(f"{path} is damaged or cut off ({error}): copy it again.") from error
    for name, (dtype, _) in headers.items():
        if dtype not in DTYPES:
            raise HeedError(f"{path} holds {name} as {dtype}: heed reads {', '.join(DTYPES)}.")
    return {name: torch.empty(shape, device="meta") for name, (_, shape) in headers.items()}


def _different_weights(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> set[str]:
    """Return the names of weights that are on one side only, or have different shapes."""
    shared = first.keys() & second.keys()
    return first.keys() ^ second.keys() | {name for name in shared if first[name].shape != second[name].shape}


class _WithoutMemory(TorchFunctionMode):
    """Create parameters on the meta device without initialising them.

    Unlike ``torch.device("meta")``, it does not make operations such as `torch.arange` import torch._dynamo (a second).
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":  # methods of tensors have no module
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        if func in (torch.empty, torch.zeros, torch.randn):
            func, kwargs = torch.empty, {**kwargs, "device": "meta"}
        return func(*args, **kwargs)


def _parameters(model: Seq2Seq) -> dict[str, Tensor]:
    """Return all parameters and buffers by name. A tied tensor appears once, under its first name."""
    first_names: dict[int, str] = {}
    # With keep_vars, tied parameters are the same object, even on the meta device.
    state = model.state_dict(keep_vars=True)
    return {name: tensor.detach() for name, tensor in state.items() if first_names.setdefault(id(tensor), name) == name}
