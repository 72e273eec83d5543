"""Convert transformers to CTranslate2's model format."""

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heed.exchange.weights import common_gaps, query_projection, refuse, require_transformer
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.symbols import BOS_PIECE, EOS_PIECE, UNK_PIECE

TABLE_ROWS = 2048
"""Rows of a table of sinusoidal or no positions. heed's own translator accepts 1,024 subwords by default."""

EPSILON = {"layer": 1e-5, "rms": 1e-6}
"""Epsilon of torch's LayerNorm and of heed's RMSNorm."""


def check_supported(model: Seq2Seq) -> Transformer:
    """Return the model if CTranslate2 can compute it; otherwise raise a HeedError naming the missing parts."""
    names = {
        "alibi": "ALiBi in the encoder (model.positions.kind=alibi)",
        "relative": "relative positions of this kind, a table for each layer (model.positions.kind=relative)",
    }
    transformer = require_transformer(model, "CTranslate2")
    kind = transformer.config.positions.kind
    refuse("CTranslate2", {**common_gaps(transformer.config), names.get(kind, ""): kind in names})
    return transformer


def max_positions(model: Transformer) -> int | None:
    """Return the number of tokens that an export accepts on each side; None if it has no table of positions."""
    config = model.config.positions
    return None if config.kind == "rotary" else config.max_length or TABLE_ROWS


def save(
    folder: Path, model: Transformer, src_pieces: list[str], tgt_pieces: list[str], *, quantization: str | None
) -> None:
    """Write a model that `check_supported` accepts, with its vocabularies, into an existing folder."""
    spec = _empty_spec(model)
    if model.config.norm == "pre":
        _copy_norm(spec.encoder.layer_norm, model.encoder_norm)
        _copy_norm(spec.decoder.layer_norm, model.decoder_norm)
    _copy_embedding(spec.encoder, spec.encoder.embeddings[0], model, model.src_embedding.weight, model.src_positions)
    _copy_embedding(spec.decoder, spec.decoder.embeddings, model, model.tgt_embedding.weight, model.tgt_positions)
    spec.decoder.projection.weight = _array(model.output.weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    for theirs, encoder_layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _copy_attention(theirs.self_attention, encoder_layer.self_attention)
        _copy_feed_forward(theirs.ffn, encoder_layer.feed_forward)
    for theirs, decoder_layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _copy_attention(theirs.self_attention, decoder_layer.self_attention)
        _copy_attention(theirs.attention, decoder_layer.cross_attention)
        _copy_feed_forward(theirs.ffn, decoder_layer.feed_forward)
    spec.register_source_vocabulary(src_pieces)
    spec.register_target_vocabulary(tgt_pieces)
    spec.config.unk_token = UNK_PIECE
    spec.config.bos_token = spec.config.decoder_start_token = BOS_PIECE
    spec.config.eos_token = EOS_PIECE
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON[model.config.norm_kind]
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def _empty_spec(model: Transformer) -> Any:
    """Return a ``ctranslate2.specs.TransformerSpec`` of the architecture, without weights."""
    specs = import_module("ctranslate2.specs.transformer_spec")
    activations = import_module("ctranslate2.specs.common_spec").Activation
    config = model.config
    functions = {"relu": activations.RELU, "gelu": activations.GELU}
    activation = functions.get(config.activation, activations.SWISH)  # SiLU's other name
    options = {
        "num_heads": config.num_heads,
        "pre_norm": config.norm == "pre",
        "activation": activation,
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm_kind == "rms",
        # 0: all dimensions of a head.
        "rotary_dim": 0 if config.positions.kind == "rotary" else None,
        "rotary_interleave": False,
    }
    return specs.TransformerSpec(
        specs.TransformerEncoderSpec(config.encoder_layers, **options),
        specs.TransformerDecoderSpec(config.decoder_layers, **options),
    )


def _copy_embedding(side: Any, embedding: Any, model: Transformer, table: Tensor, positions: Any) -> None:
    config, width, merge = model.config.positions, model.config.d_model, getattr(positions, "merge", None)
    vectors = torch.zeros(TABLE_ROWS, width)
    if config.merge is not None:
        vectors = positions.vectors(0, max_positions(model))
    if merge is not None:  # W [x; p] = W_x x + W_p p: apply both to whole tables
        table, vectors = width**0.5 * table @ merge.weight[:, :width].T, vectors @ merge.weight[:, width:].T
    side.scale_embeddings = merge is None
    embedding.weight = _array(table)
    if hasattr(side, "position_encodings"):
        side.position_encodings.encodings = _array(vectors)


def _copy_attention(spec: Any, residual: Any) -> None:
    attention = residual.sublayer.attention
    inputs = [query_projection(attention), (attention.key_value.weight, attention.key_value.bias)]
    if len(spec.linear) == 2:  # self-attention has one projection for queries, keys and values
        inputs = [(torch.cat(weights), torch.cat(biases)) for weights, biases in [zip(*inputs, strict=True)]]
    for linear, (weight, bias) in zip(spec.linear[:-1], inputs, strict=True):
        linear.weight, linear.bias = _array(weight), _array(bias)
    _copy_linear(spec.linear[-1], attention.output)
    _copy_norm(spec.layer_norm, residual.norm)


def _copy_feed_forward(spec: Any, residual: Any) -> None:
    feed_forward = residual.sublayer
    weight, bias = feed_forward.up_projection.weight, feed_forward.up_projection.bias
    if hasattr(spec, "linear_0_noact"):
        (weight, value_weight), (bias, value_bias) = weight.chunk(2), bias.chunk(2)
        spec.linear_0_noact.weight, spec.linear_0_noact.bias = _array(value_weight), _array(value_bias)
    spec.linear_0.weight, spec.linear_0.bias = _array(weight), _array(bias)
    _copy_linear(spec.linear_1, feed_forward.down_projection)
    _copy_norm(spec.layer_norm, residual.norm)


def _copy_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _copy_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _array(norm.weight)
    if hasattr(norm, "bias"):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    # Copy, because the converter works in place.
    return tensor.detach().float().clone().numpy()
