"""Convert transformers to Hugging Face models: Marian for post-norm, Pegasus for pre-norm."""

from typing import Any

import torch
from torch import Tensor

from heed.export import require
from heed.export.weights import beyond_original, layers_of, query_projection, require_transformer
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.symbols import BOS, EOS, PAD

POSITIONS = 1024
"""Positions of the sinusoidal table."""

SPECIAL_IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}


def check_supported(model: Seq2Seq) -> Transformer:
    """Return the model if Marian or Pegasus can compute it; otherwise raise a HeedError naming the missing parts."""

    def lacks(model: Transformer) -> dict[str, bool]:
        config = model.config
        is_shared = model.output is model.tgt_embedding is model.src_embedding
        separate = "separate embeddings of source, target and output in a pre-norm model"
        return {
            **beyond_original(config),
            "gated feed-forward network (model.activation=swiglu)": config.activation == "swiglu",
            separate: config.norm == "pre" and not is_shared,
        }

    return require_transformer(model, "transformers", lacks, otherwise=" CTranslate2 may: try `--to ctranslate2`.")


def empty_model(config: TransformerConfig, *, src_vocab: int, tgt_vocab: int, shared: bool) -> Any:
    """Return a new model of the same size, with random weights. If ``shared``, both sides have one embedding."""
    transformers = require("transformers")
    kind, make = {
        "post": (transformers.MarianConfig, transformers.MarianMTModel),
        "pre": (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration),
    }[config.norm]
    separate = {} if shared else {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": tgt_vocab}
    settings = {
        "vocab_size": src_vocab,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "activation_function": config.activation,
        "max_position_embeddings": POSITIONS,
        "scale_embedding": True,
        "init_std": config.d_model**-0.5,
        "tie_word_embeddings": config.tie_embeddings,
        "forced_eos_token_id": None,
        **SPECIAL_IDS,
    }
    return make(kind(**settings, **separate))


@torch.no_grad()
def convert(model: Transformer) -> Any:
    """Return a Marian or Pegasus model with the weights of a model that `check_supported` accepts."""
    target = empty_model(
        model.config,
        src_vocab=model.src_embedding.num_embeddings,
        tgt_vocab=model.tgt_embedding.num_embeddings,
        shared=model.src_embedding is model.tgt_embedding,
    ).eval()
    # Their sinusoids are all sines, then all cosines, computed when a model is loaded. heed alternates sine and cosine.
    order = torch.cat((torch.arange(0, model.config.d_model, 2), torch.arange(1, model.config.d_model, 2)))
    theirs = target.model
    theirs.encoder.embed_tokens.weight.copy_(model.src_embedding.weight[:, order])
    theirs.decoder.embed_tokens.weight.copy_(model.tgt_embedding.weight[:, order])
    target.lm_head.weight.copy_(model.output.weight[:, order])
    if model.config.norm == "pre":
        _copy_output(theirs.encoder.layer_norm, model.encoder_norm, order)
        _copy_output(theirs.decoder.layer_norm, model.decoder_norm, order)
    for layer, ours in zip(theirs.encoder.layers, layers_of(model.encoder), strict=True):
        _copy_attention(layer.self_attn, layer.self_attn_layer_norm, ours.self_attention, order)
        _copy_feed_forward(layer, ours.feed_forward, order)
    for layer, ours in zip(theirs.decoder.layers, layers_of(model.decoder), strict=True):
        _copy_attention(layer.self_attn, layer.self_attn_layer_norm, ours.self_attention, order)
        _copy_attention(layer.encoder_attn, layer.encoder_attn_layer_norm, ours.cross_attention, order)
        _copy_feed_forward(layer, ours.feed_forward, order)
    return target


def _copy_attention(theirs: Any, norm: Any, residual: Any, order: Tensor) -> None:
    ours = residual.sublayer.attention
    weights = zip(
        (theirs.q_proj, theirs.k_proj, theirs.v_proj),
        (query_projection(ours), *zip(ours.key_value.weight.chunk(2), ours.key_value.bias.chunk(2), strict=True)),
        strict=True,
    )
    for projection, (weight, bias) in weights:
        projection.weight.copy_(weight[:, order])
        projection.bias.copy_(bias)
    _copy_output(theirs.out_proj, ours.output, order)
    _copy_output(norm, residual.norm, order)


def _copy_feed_forward(layer: Any, residual: Any, order: Tensor) -> None:
    ours = residual.sublayer
    layer.fc1.weight.copy_(ours.up_projection.weight[:, order])
    layer.fc1.bias.copy_(ours.up_projection.bias)
    _copy_output(layer.fc2, ours.down_projection, order)
    _copy_output(layer.final_layer_norm, residual.norm, order)


def _copy_output(theirs: Any, ours: Any, order: Tensor) -> None:
    """Copy a norm, or a layer whose output is added to the residual stream."""
    theirs.weight.copy_(ours.weight[order])
    theirs.bias.copy_(ours.bias[order])
