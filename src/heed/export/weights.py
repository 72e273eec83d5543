"""Check what other engines support, and convert weights for them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from heed.errors import HeedError
from heed.layers.attention import PRODUCTS
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig


def require_transformer(
    model: Seq2Seq, engine: str, lacks: Callable[[TransformerConfig], Mapping[str, bool]], *, otherwise: str = ""
) -> Transformer:
    """Return the model if it is a transformer that an engine can compute.

    Args:
        lacks: maps the configuration to the parts that this engine lacks, and whether the model has each.

    Raises:
        HeedError: if the model is not a transformer, or naming the parts that the engine lacks.
    """
    if not isinstance(model, Transformer):
        raise HeedError(f"{engine} has no recurrent encoder-decoder with attention: export a transformer.")
    kind, scores = model.config.self_attention.kind, (model.config.self_attention, model.config.cross_attention)
    unsupported = {
        "layers without a norm (model.norm=none)": model.config.norm == "none",
        "layers without a residual sum (model.residual=false)": not model.config.residual,
        f"self-attention without parameters (model.self_attention.kind={kind})": kind == "parameter_free",
        "scores with weights (model.*_attention.score)": any(one.score not in PRODUCTS for one in scores),
        **lacks(model.config),
    }
    if problems := [name for name, is_used in unsupported.items() if is_used]:
        raise HeedError(f"{engine} cannot compute this model: it has no {' and no '.join(problems)}.{otherwise}")
    return model


def layers_of(stack: nn.ModuleList) -> list[Any]:
    """Return the layers of an encoder or decoder as Any, because mypy does not know their attributes."""
    return list(stack)


def query_projection(attention: Any) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the query projection, for an engine that divides every score by √E."""
    scale = 1.0 if attention.score.scaled else (attention.query.weight.shape[0] / attention.num_heads) ** 0.5
    return scale * attention.query.weight, scale * attention.query.bias


@torch.no_grad()
def absolute_position_vectors(positions: Any, config: TransformerConfig, length: int) -> Tensor:
    """Return the vectors to add to the embedding at each position, "N D": zeros for a model without positions.

    Args:
        positions: ``src_positions`` or ``tgt_positions`` of the model.
        length: number of positions. Learned positions define it themselves.
    """
    if config.positions.merge is None:
        return torch.zeros(length, config.d_model)
    vectors: Tensor = positions.vectors(0, config.positions.max_length or length)
    # W [x; p] = W_x x + W_p p
    return vectors if positions.merge is None else vectors @ positions.merge.weight[:, config.d_model :].T
