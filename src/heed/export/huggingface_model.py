"""Convert transformers to Hugging Face models: Marian for post-norm, Pegasus for pre-norm."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from heed.export import require
from heed.export.weights import common_gaps, query_projection, refuse, require_transformer
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.symbols import BOS, EOS, PAD

POSITIONS = 1024
"""Positions of the sinusoidal table."""

CONFIG_FIELDS: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""The field of a `TransformerConfig` for each of their settings that has the same meaning."""

SPECIAL_IDS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}


def check_supported(model: Seq2Seq) -> Transformer:
    """Return the model if Marian or Pegasus can compute it; otherwise raise a HeedError naming the missing parts."""
    transformer = require_transformer(model, "transformers")
    config, positions = transformer.config, transformer.config.positions
    is_shared = transformer.output is transformer.tgt_embedding is transformer.src_embedding
    is_sinusoidal = (positions.kind, positions.merge) == ("sinusoidal", "add")
    unsupported = {
        **common_gaps(config),
        f"{config.norm_kind} norm (model.norm_kind={config.norm_kind})": config.norm_kind != "layer",
        f"positions but added sinusoids (model.positions.kind={positions.kind})": not is_sinusoidal,
        "gated feed-forward network (model.activation=swiglu)": config.activation == "swiglu",
        "separate embeddings of source, target and output in a pre-norm model": config.norm == "pre" and not is_shared,
    }
    refuse("transformers", unsupported, otherwise=" CTranslate2 may: try `--to ctranslate2`.")
    return transformer


def empty_model(config: TransformerConfig, *, src_vocab: int, tgt_vocab: int, shared: bool) -> Any:
    """Return a new model of the same size, with random weights. If ``shared``, both sides have one embedding."""
    transformers = require("transformers")
    kind, make = {
        "post": (transformers.MarianConfig, transformers.MarianMTModel),
        "pre": (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration),
    }[config.norm]
    separate = {} if shared else {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": tgt_vocab}
    settings = {theirs: getattr(config, ours) for theirs, ours in CONFIG_FIELDS.items()}
    settings |= {"vocab_size": src_vocab, "max_position_embeddings": POSITIONS, "init_std": config.d_model**-0.5}
    settings |= {"scale_embedding": True, "forced_eos_token_id": None, **SPECIAL_IDS}
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
    theirs = target.model
    theirs.encoder.embed_tokens.load_state_dict(model.src_embedding.state_dict())
    theirs.decoder.embed_tokens.load_state_dict(model.tgt_embedding.state_dict())
    target.lm_head.load_state_dict(model.output.state_dict())
    if model.config.norm == "pre":
        theirs.encoder.layer_norm.load_state_dict(model.encoder_norm.state_dict())
        theirs.decoder.layer_norm.load_state_dict(model.decoder_norm.state_dict())
    for layer, encoder_layer in zip(theirs.encoder.layers, model.encoder, strict=True):
        _copy_attention(layer.self_attn, layer.self_attn_layer_norm, encoder_layer.self_attention)
        _copy_feed_forward(layer, encoder_layer.feed_forward)
    for layer, decoder_layer in zip(theirs.decoder.layers, model.decoder, strict=True):
        _copy_attention(layer.self_attn, layer.self_attn_layer_norm, decoder_layer.self_attention)
        _copy_attention(layer.encoder_attn, layer.encoder_attn_layer_norm, decoder_layer.cross_attention)
        _copy_feed_forward(layer, decoder_layer.feed_forward)
    # Their sinusoids are all sines, then all cosines, computed when a model is loaded. heed alternates sine and cosine.
    order = torch.cat((torch.arange(0, model.config.d_model, 2), torch.arange(1, model.config.d_model, 2)))
    for name, weight in target.named_parameters():
        if re.search("norm|out_proj|fc2", name):  # the output is added to the residual stream
            weight.copy_(weight[order])
        elif weight.ndim == 2 and "positions" not in name:
            weight.copy_(weight[:, order])
    return target


def _copy_attention(theirs: Any, norm: Any, residual: Any) -> None:
    ours = residual.sublayer.attention
    key_value = zip(ours.key_value.weight.chunk(2), ours.key_value.bias.chunk(2), strict=True)
    projections = theirs.q_proj, theirs.k_proj, theirs.v_proj
    for projection, (weight, bias) in zip(projections, (query_projection(ours), *key_value), strict=True):
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    norm.load_state_dict(residual.norm.state_dict())


def _copy_feed_forward(layer: Any, residual: Any) -> None:
    layer.fc1.load_state_dict(residual.sublayer.up_projection.state_dict())
    layer.fc2.load_state_dict(residual.sublayer.down_projection.state_dict())
    layer.final_layer_norm.load_state_dict(residual.norm.state_dict())
