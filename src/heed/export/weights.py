"""Check what other engines support, and find the weights that they need."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from heed.errors import HeedError
from heed.layers.attention import PRODUCTS
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer


def require_transformer(
    model: Seq2Seq, engine: str, lacks: Callable[[Transformer], Mapping[str, bool]], *, otherwise: str = ""
) -> Transformer:
    """Return the model if it is a transformer that an engine can compute.

    Args:
        lacks: maps the model to the parts that this engine lacks, and whether the model has each.

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
        **lacks(model),
    }
    refuse(engine, unsupported, otherwise=otherwise)
    return model


def refuse(engine: str, unsupported: Mapping[str, bool], *, otherwise: str = "") -> None:
    """Raise a HeedError naming the parts that an engine lacks and the model has, if there are any."""
    if problems := [name for name, is_used in unsupported.items() if is_used]:
        raise HeedError(f"{engine} cannot compute this model: it has no {' and no '.join(problems)}.{otherwise}")


def layers_of(stack: nn.ModuleList) -> list[Any]:
    """Return the layers of an encoder or decoder as Any, because mypy does not know their attributes."""
    return list(stack)


def query_projection(attention: Any) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the query projection, for an engine that divides every score by √E."""
    scale = 1.0 if attention.score.scaled else (attention.query.weight.shape[0] / attention.num_heads) ** 0.5
    return scale * attention.query.weight, scale * attention.query.bias
