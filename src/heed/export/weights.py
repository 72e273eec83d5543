"""Weights of a transformer as other engines expect them."""

from typing import Any

import torch
from torch import Tensor, nn

from heed.models.transformer_config import TransformerConfig


def layers_of(stack: nn.ModuleList) -> list[Any]:
    """Return the layers of an encoder or decoder without their static type, whose attributes mypy does not know."""
    return list(stack)


def query_projection(attention: Any) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the queries, for an engine that divides every score by √E."""
    scale = 1.0 if attention.scaled else (attention.query.weight.shape[0] / attention.num_heads) ** 0.5
    return scale * attention.query.weight, scale * attention.query.bias


@torch.no_grad()
def absolute_position_vectors(positions: Any, config: TransformerConfig, length: int) -> Tensor:
    """Return what is added to the embedding at each position, "N D": zeros for a model without positions.

    Args:
        positions: ``src_positions`` or ``tgt_positions`` of the model.
        length: the number of positions; learned positions have their own.
    """
    if config.positions.merge is None:
        return torch.zeros(length, config.d_model)
    vectors: Tensor = positions.vectors(0, config.positions.max_length or length)
    # W [x; p] = W_x x + W_p p
    return vectors if positions.merge is None else vectors @ positions.merge.weight[:, config.d_model :].T
