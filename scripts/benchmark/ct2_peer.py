"""CTranslate2 with heed's weights."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.hf_peer import modules
from benchmark.peers import UnavailableError, require
from heed.models.transformer import Transformer
from heed.symbols import BOS, EOS, PAD, UNK


class CTranslate2Decoding:
    """A heed transformer (pre- or post-norm) in CTranslate2.

    Args:
        folder: where the converted model is written.
        kind: CTranslate2's compute type.
        longest: limit of target tokens.

    Raises:
        UnavailableError: CTranslate2 is not installed or does not support the model.
    """

    def __init__(self, model: Transformer, folder: Path, *, kind: str, threads: int, longest: int) -> None:
        ctranslate2 = require("ctranslate2")
        self.longest = longest
        self.pieces = [f"piece{number}" for number in range(model.output.num_embeddings)]
        spec = _spec(model)
        spec.register_source_vocabulary(self.pieces)
        spec.register_target_vocabulary(self.pieces)
        names = {"unk_token": UNK, "bos_token": BOS, "eos_token": EOS, "decoder_start_token": BOS}
        for name, token in names.items():
            setattr(spec.config, name, self.pieces[token])
        spec.config.add_source_eos = False
        spec.validate()
        spec.optimize(quantization=None if kind == "float32" else kind)
        folder.mkdir()
        spec.save(str(folder))
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads
        )

    def translate(self, batches: Sequence[tuple[Tensor, Tensor]], *, beam: int) -> list[list[int]]:
        """Return the target ids of all rows of all (src, src_mask)."""
        found = []
        for src, mask in batches:
            results = self.translator.translate_batch(
                [[self.pieces[token] for token in row[inside].tolist()] for row, inside in zip(src, mask, strict=True)],
                beam_size=beam,
                length_penalty=0.0,  # scores are log p, as on the other sides
                max_decoding_length=self.longest,
                suppress_sequences=[[self.pieces[PAD]], [self.pieces[BOS]]],
            )
            found += [[int(piece.removeprefix("piece")) for piece in result.hypotheses[0]] for result in results]
        return found


def _spec(model: Transformer) -> Any:
    common_spec = import_module("ctranslate2.specs.common_spec")
    transformer_spec = import_module("ctranslate2.specs.transformer_spec")
    config = model.config
    activations = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU}
    sinusoidal = config.positions.kind == "sinusoidal" and config.positions.merge == "add"
    if config.norm == "none" or config.norm_kind != "layer" or config.activation not in activations or not sinusoidal:
        raise UnavailableError("this benchmark supports LayerNorm, ReLU or GELU, and added sinusoidal positions only")
    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=activations[config.activation],
    )
    spec.encoder.embeddings[0].weight = _array(model.src_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.tgt_embedding.weight)
    spec.decoder.projection.weight = _array(model.output.weight)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = True
        side.position_encodings.encodings = _array(model.src_positions(torch.zeros(1, 512, config.d_model))[0])
    if config.norm == "pre":
        _copy_norm(spec.encoder.layer_norm, model.encoder_norm)
        _copy_norm(spec.decoder.layer_norm, model.decoder_norm)
    for layer, ours in zip(spec.encoder.layer, modules(model.encoder), strict=True):
        _copy_self_attention(layer.self_attention, ours.self_attention)
        _copy_feed_forward(layer.ffn, ours.feed_forward)
        _copy_norms((layer.self_attention, layer.ffn), ours.residuals)
    for layer, ours in zip(spec.decoder.layer, modules(model.decoder), strict=True):
        _copy_self_attention(layer.self_attention, ours.self_attention)
        query, key_value, output = layer.attention.linear
        cross = ours.cross_attention
        for linear, module in ((query, cross.query), (key_value, cross.key_value), (output, cross.output)):
            _copy_linear(linear, module)
        _copy_feed_forward(layer.ffn, ours.feed_forward)
        _copy_norms((layer.self_attention, layer.attention, layer.ffn), ours.residuals)
    return spec


def _copy_self_attention(spec: Any, attention: Any) -> None:
    query, key_value = attention.query, attention.key_value
    spec.linear[0].weight = _array(torch.cat((query.weight, key_value.weight)))
    spec.linear[0].bias = _array(torch.cat((query.bias, key_value.bias)))
    _copy_linear(spec.linear[1], attention.output)


def _copy_feed_forward(spec: Any, feed_forward: Any) -> None:
    _copy_linear(spec.linear_0, feed_forward.widen)
    _copy_linear(spec.linear_1, feed_forward.narrow)


def _copy_norms(specs: Sequence[Any], residuals: Any) -> None:
    for spec, residual in zip(specs, residuals, strict=True):
        _copy_norm(spec.layer_norm, residual.norm)


def _copy_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _copy_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    # Copied, because the converter works in place.
    return tensor.detach().clone().numpy()
