"""Check what other engines support, and find the weights that they need."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from heed.errors import HeedError
from heed.layers.attention import PRODUCTS
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig


def require_transformer(model: Seq2Seq, engine: str) -> Transformer:
    """Return the model if it is a transformer; otherwise raise a HeedError."""
    if not isinstance(model, Transformer):
        raise HeedError(f"{engine} has no recurrent models with attention and no ensembles: export a transformer.")
    return model


def common_gaps(config: TransformerConfig) -> dict[str, bool]:
    """Return the parts of transformers that every engine lacks, and whether this one has each."""
    kind, scores = config.self_attention.kind, (config.self_attention, config.cross_attention)
    return {
        "layers without a norm (model.norm=none)": config.norm == "none",
        "layers without a residual sum (model.residual=false)": not config.residual,
        f"self-attention without parameters (model.self_attention.kind={kind})": kind == "parameter_free",
        "scores with weights (model.*_attention.score)": any(one.score not in PRODUCTS for one in scores),
    }


def refuse(engine: str, unsupported: Mapping[str, bool], *, otherwise: str = "") -> None:
    """Raise a HeedError naming the parts that an engine lacks and the model has, if there are any."""
    if problems := [name for name, is_used in unsupported.items() if is_used]:
        raise HeedError(f"{engine} cannot compute this model: it has no {' and no '.join(problems)}.{otherwise}")


def query_projection(attention: Any) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the query projection, for an engine that divides every score by √E."""
    scale = 1.0 if attention.score.scaled else (attention.query.weight.shape[0] / attention.num_heads) ** 0.5
    return scale * attention.query.weight, scale * attention.query.bias
