"""Edits of attention: values that replace weights while a model runs. They are passed in, as maps are passed out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

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
    """Replace the attention weights of some heads at some positions, in all sentences.

    ``Edit("cross", "off", layers=[0], heads=[3])`` switches off the fourth head of the first decoder layer: it sets
    ξ_h = 0 (Michel et al. 2019, §2.3). Hidden keys (padding, later positions) always keep a weight of 0.
    """

    attention: AttentionKind
    weights: Literal["off", "uniform", "diagonal"] | Float[Tensor, "#L #H #Q K"] | Float[np.ndarray, "#L #H #Q K"]
    """
    - "off": 0, so that the context is 0.
    - "uniform": equal weights, so that the context is the mean of the values.
    - "diagonal": position t attends to key t alone, and beyond the last key to nothing.
    - An array with the axes of `Attended`, such as the map of another sentence. An axis of size 1 applies to all
      layers, heads or positions. Positions after its last row are not edited; keys after its last column get 0.
    """
    layers: Collection[int] | None = None
    heads: Collection[int] | None = None
    positions: Collection[int] | None = None
    """The layers, heads and queries to edit, counted from 0; None: all. Target position t predicts target piece t."""

    def check(self, available: Heads) -> None:
        """Raise a HeedError unless a model with these heads has all those of the edit."""
        check_heads(self.attention, self.layers, self.heads, available)
        if isinstance(self.weights, str):
            if self.weights not in ("off", "uniform", "diagonal"):
                raise HeedError(f"weights={self.weights!r} must be off, uniform, diagonal or an array.")
            return
        sizes = available[self.attention]
        if self.weights.ndim != 4 or any(
            n not in (1, size) for n, size in zip(self.weights.shape, sizes, strict=False)
        ):
            raise HeedError(
                f"Weights of shape {tuple(self.weights.shape)} must have the axes layers (1 or {sizes[0]}), heads "
                f"(1 or {sizes[1]}), queries and keys."
            )

    def replacement(
        self, visible: Float[Tensor, "*#B #T K"], layer: int, positions: range
    ) -> Float[Tensor, "*#B #T K"]:
        """Return the weights that these queries of a layer get, given 1 at visible keys and 0 at hidden ones."""
        if not isinstance(self.weights, str):
            given = torch.as_tensor(self.weights).to(visible)
            given = given[layer if len(given) > 1 else 0]  # "#H #Q K"
            if given.shape[1] > 1:
                given = given[:, [min(position, given.shape[1] - 1) for position in positions]]
            # A negative pad truncates.
            return F.pad(given, (0, visible.shape[-1] - given.shape[2]))[:, None] * visible
        if self.weights == "off":
            return visible * 0
        if self.weights == "uniform":
            return visible / visible.sum(-1, keepdim=True).clamp_min(1)
        rows = torch.arange(positions.start, positions.stop, device=visible.device)[:, None]
        return visible * (rows == torch.arange(visible.shape[-1], device=visible.device))

    def selects(self, head: int, position: int) -> bool:
        """Return whether the edit applies to this head and query."""
        rows = 1 if isinstance(self.weights, str) else self.weights.shape[2]
        chosen = (self.heads is None or head in self.heads) and (self.positions is None or position in self.positions)
        return chosen and (rows == 1 or position < rows)


Edits = Sequence[Edit]


@dataclass(frozen=True)
class WeightEdit:
    """The edits of one layer's attention of one kind, for the queries at some positions."""

    edits: Edits
    layer: int
    positions: range

    def __call__(
        self, weights: Float[Tensor, "B H Q K"], mask: Bool[Tensor, "*#B #T K"] | None
    ) -> Float[Tensor, "B H Q K"]:
        """Return the edited weights. Q = n · T: the queries of n hypotheses at T positions each."""
        B, heads, _, keys = weights.shape
        grid = weights.reshape(B, heads, -1, len(self.positions), keys)  # "B H n T K"
        visible = weights.new_ones(1, keys) if mask is None else mask.unsqueeze(-3).to(weights.dtype)
        for edit in self.edits:
            chosen = [[edit.selects(head, position) for position in self.positions] for head in range(heads)]
            rows = torch.tensor(chosen, device=weights.device)[:, None, :, None]  # "H 1 T 1"
            grid = torch.where(rows, edit.replacement(visible, self.layer, self.positions), grid)
        return grid.flatten(2, 3)


class LayerEdits(NamedTuple):
    """The edits of one layer; None where there are none, so that attention is computed as usual."""

    cross: WeightEdit | None = None
    encoder_self: WeightEdit | None = None
    decoder_self: WeightEdit | None = None


NO_EDITS = LayerEdits()


def layer_edits(edits: Edits | None, layer: int, positions: range) -> LayerEdits:
    """Return the edits of a layer, counted from 0, for queries at these positions."""
    if not edits:
        return NO_EDITS
    mine = [edit for edit in edits if edit.layers is None or layer in edit.layers]
    chosen: dict[str, Any] = {kind: [e for e in mine if e.attention == kind] for kind in LayerEdits._fields}
    return LayerEdits(**{kind: WeightEdit(of, layer, positions) for kind, of in chosen.items() if of})


def check_edits(edits: Edits | None, available: Heads) -> None:
    """Raise a HeedError if one of the edits is of an attention, layer or head that the model does not have."""
    for edit in edits or ():
        edit.check(available)


def check_heads(
    attention: str,
    layers: Collection[int] | None,
    heads: Collection[int] | None,
    available: Mapping[AttentionKind, tuple[int, int]],
    *,
    first: int = 0,
) -> None:
    """Raise a HeedError if a model does not have these heads, which are counted from ``first``; None: all."""
    sizes = {str(kind): size for kind, size in available.items()}.get(attention)
    if sizes is None:
        raise HeedError(
            f"This model has no {attention} attention to edit: it has {', '.join(available) or 'no attention'}."
        )
    for name, chosen, size in zip(("layer", "head"), (layers, heads), sizes, strict=True):
        for number in chosen or ():
            if number - first not in range(size):
                raise HeedError(
                    f"The {attention} attention of this model has no {name} {number}: choose from {first} to "
                    f"{size - 1 + first}."
                )
