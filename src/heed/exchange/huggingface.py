"""The weights of a transformer under the names and in the layout of Hugging Face's Marian and Pegasus, and back.

Their sinusoids are all sines, then all cosines; heed alternates sine and cosine. So the dimensions of the residual
stream have another order there, in every weight that reads or writes it.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from heed.languages import LANGUAGE_TAG
from heed.models.transformer_config import TransformerConfig

_TABLE: Mapping[str, Mapping[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SETTINGS = _TABLE["settings"]
"""The field of a `TransformerConfig` for each of their settings that has the same meaning."""
EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
"""Their weights with a row for each piece: of source, target and output."""
SHARED = "model.shared.weight"
"""Another name of the embeddings where both sides have one."""
BIAS = "final_logits_bias"
"""Their bias of the output, "1 V", which is always there."""
SINUSOIDS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Sinusoids, which heed and newer versions of transformers compute."""


def to_theirs(weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Return their weights for all weights of a model, with the names of each tied one, and without `BIAS`."""
    order, found = _order(config.d_model), {}
    for theirs, ours, half in _names(config):
        weight = weights[ours] if half is None else weights[ours].chunk(2)[half]
        found[theirs] = _reordered(theirs, weight, order)
    return found


def from_theirs(weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Return the weights of a model for theirs: the inverse of `to_theirs`."""
    order = _order(config.d_model).argsort()
    found: dict[str, Tensor] = {}
    for theirs, ours, half in _names(config):
        weight = _reordered(theirs, weights[theirs], order)
        found[ours] = torch.cat((found[ours], weight)) if half else weight
    return found


def _names(config: TransformerConfig) -> Iterator[tuple[str, str, int | None]]:
    """Yield their name and heed's of each weight, and which half of heed's it is, if it is not all."""

    def both(theirs: str, ours: str) -> Iterator[tuple[str, str, int | None]]:
        ours, _, half = ours.removesuffix("]").partition("[")
        for kind in ("weight", "bias"):
            yield f"{theirs}.{kind}", f"{ours}.{kind}", int(half) if half else None

    for theirs, ours in _TABLE["weights"].items():
        if theirs.endswith(".weight"):
            yield theirs, ours, None
        elif config.norm == "pre":
            yield from both(theirs, ours)
    for side, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(depth):
            for theirs, ours in _TABLE["layers"].items():
                if side == "decoder" or not ours.startswith("cross"):
                    yield from both(f"model.{side}.layers.{number}.{theirs}", f"{side}.{number}.{ours}")


def their_tag(tag: str) -> str:
    """Return their name of a language tag: <2de> is >>de<<."""
    return f">>{tag.removeprefix(LANGUAGE_TAG)[:-1]}<<"


def theirs_order(states: Tensor) -> Tensor:
    """Return states "* D" of the residual stream with the dimensions in their order."""
    return states[..., _order(states.shape[-1])]


def _order(d_model: int) -> Tensor:
    """Return heed's dimension of the residual stream for each of theirs."""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def _reordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    if re.search(r"norm|out_proj|fc2", name):  # its output is added to the residual stream
        return weight[order]
    return weight[:, order] if weight.ndim == 2 else weight
