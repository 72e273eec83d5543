"""Edits of attention: values that replace weights while a model runs. They are passed in, as maps are passed out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from heed.errors import HeedError

AttentionKind = Literal["cross", "encoder_self", "decoder_self"]
Heads = Mapping[AttentionKind, tuple[int, int]]
"""The numbers of layers and of heads per layer, for each kind of attention that a model has."""


@dataclass(frozen=True, eq=False)
class Edit:
    """Replace attention weights, in all sentences. Hidden keys (padding, later positions) keep a weight of 0.

    ``Edit("cross", "off", layers=[0], heads=[3])`` switches off the fourth head of the first decoder layer: it sets
    ξ_h = 0 (Michel et al. 2019, §2.3).
    """

    attention: AttentionKind
    weights: (
        Literal["off", "uniform", "diagonal"] | Float[Tensor, "#L #H *#B #Q K"] | Float[np.ndarray, "#L #H *#B #Q K"]
    )
    """
    - "off": 0, so that the context is 0.
    - "uniform": equal weights that sum to 1, so that the context is the mean of the values. The weights that they
      replace may sum to less with ``reach=local_p``.
    - "diagonal": position t attends to key t alone, and beyond the last key to nothing.
    - An array with the axes of `Attended`, such as the map of another sentence. An axis of size 1 applies to all
      layers, heads or positions. Positions after its last row are not edited; keys after its last column get 0.
    - A tensor with the axes of `AttentionMaps`, "L H B Q K": weights for each sentence of a batch, without a beam.

    An array is kept as a tensor "#L #H #B #Q K".
    """
    layers: Collection[int] | None = None
    heads: Collection[int] | None = None
    positions: Collection[int] | None = None
    """The layers, heads and queries to edit, counted from 0; None: all. Target position t predicts target piece t."""

    def __post_init__(self) -> None:
        if isinstance(self.weights, str):
            if self.weights not in ("off", "uniform", "diagonal"):
                raise HeedError(f"weights={self.weights!r} must be off, uniform, diagonal or an array.")
            return
        weights = torch.as_tensor(self.weights)
        if not 4 <= weights.ndim <= 5:
            raise HeedError(
                f"Weights of shape {tuple(weights.shape)} must have the axes layers, heads, queries and keys."
            )
        object.__setattr__(self, "weights", weights.unsqueeze(2) if weights.ndim == 4 else weights)

    def selects(self, head: int, position: int) -> bool:
        """Return whether the edit applies to this head and query."""
        rows = 1 if isinstance(self.weights, str) else self.weights.shape[-2]
        chosen = (self.heads is None or head in self.heads) and (self.positions is None or position in self.positions)
        return chosen and (rows == 1 or position < rows)

    def replacement(
        self, visible: Float[Tensor, "*#B #T K"], layer: int, positions: range
    ) -> Float[Tensor, "*#B #T K"]:
        """Return the weights of these queries of a layer, given 1 for visible keys and 0 for hidden ones."""
        if not isinstance(self.weights, str):
            given = torch.as_tensor(self.weights).to(visible)
            given = given[layer if len(given) > 1 else 0].transpose(0, 1)  # "#B #H #Q K"
            if given.shape[-2] > 1:
                given = given[..., [min(position, given.shape[-2] - 1) for position in positions], :]
            # A negative pad truncates.
            given = F.pad(given, (0, visible.shape[-1] - given.shape[-1]))
            return given.unsqueeze(2) * visible
        if self.weights == "uniform":
            return visible / visible.sum(-1, keepdim=True).clamp_min(1)
        rows = torch.arange(positions.start, positions.stop, device=visible.device)[:, None]
        diagonal = rows == torch.arange(visible.shape[-1], device=visible.device)
        return visible * (diagonal & (self.weights == "diagonal"))


Edits = Sequence[Edit] | None
WeightEdit = Callable[[Float[Tensor, "B H Q K"], Bool[Tensor, "*#B #T K"] | None], Float[Tensor, "B H Q K"]]
"""A function of the weights and the mask. Q = n · T: the queries of n hypotheses at T positions each."""
LayerEdits = Mapping[AttentionKind, WeightEdit]
"""The edits of one layer. Attention that is not in it is computed as usual."""
NO_EDITS: LayerEdits = MappingProxyType({})


def layer_edits(edits: Edits, layer: int, start: int, length: int) -> LayerEdits:
    """Return the edits of a layer, counted from 0, for ``length`` queries from position ``start`` on."""
    if not edits:
        return NO_EDITS
    positions = range(start, start + length)
    mine = [edit for edit in edits if edit.layers is None or layer in edit.layers]
    by_kind = {kind: [edit for edit in mine if edit.attention == kind] for kind in {edit.attention for edit in mine}}
    return {kind: partial(_apply, of, layer, positions) for kind, of in by_kind.items()}


def _apply(
    edits: Sequence[Edit],
    layer: int,
    positions: range,
    weights: Float[Tensor, "B H Q K"],
    mask: Bool[Tensor, "*#B #T K"] | None,
) -> Float[Tensor, "B H Q K"]:
    B, heads, _, keys = weights.shape
    grid = weights.reshape(B, heads, -1, len(positions), keys)  # "B H n T K"
    visible = weights.new_ones(1, keys) if mask is None else mask.unsqueeze(-3).to(weights.dtype)
    for edit in edits:
        if not isinstance(edit.weights, str) and edit.weights.shape[2] not in (1, B):
            raise HeedError(f"Weights of {edit.weights.shape[2]} sentences are given for a batch of {B}.")
        chosen = [[edit.selects(head, position) for position in positions] for head in range(heads)]
        rows = torch.tensor(chosen, device=weights.device)[:, None, :, None]  # "H 1 T 1"
        grid = torch.where(rows, edit.replacement(visible, layer, positions), grid)
    return grid.flatten(2, 3)


def check_edits(edits: Edits, available: Heads) -> None:
    """Raise a HeedError if an edit is wrong, or of an attention, layer or head that the model does not have."""
    for edit in edits or ():
        layers, heads = sizes = available.get(edit.attention, (0, 0))
        exists = {*(edit.layers or ())} <= {*range(layers)} and {*(edit.heads or ())} <= {*range(heads)}
        if not (layers and exists):
            there = ", ".join(f"{kind} {n} × {m}" for kind, (n, m) in available.items()) or "none"
            raise HeedError(f"This model has no such {edit.attention} attention (layers × heads: {there}).")
        given = sizes if isinstance(edit.weights, str) else edit.weights.shape[:2]
        if any(n not in (1, m) for n, m in zip(given, sizes, strict=True)):
            raise HeedError(
                f"Weights of {given[0]} layers and {given[1]} heads must have 1 or {layers} layers and 1 or {heads} "
                "heads."
            )
