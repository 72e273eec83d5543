"""Hugging Face's Marian (post-norm) and Pegasus (the same, pre-norm): training, and decoding with heed's weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.peers import UnavailableError, require
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.symbols import BOS, EOS, PAD

LONGEST = 512
"""Positions in the position table."""


def marian(vocabulary: int, config: TransformerConfig, *, norm: str) -> Any:
    """Build a new model of the same size: Marian for post-norm, Pegasus for pre-norm."""
    transformers = require("transformers")
    transformers.logging.set_verbosity_error()
    kind, make = {
        "post": (transformers.MarianConfig, transformers.MarianMTModel),
        "pre": (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration),
    }[norm]
    settings = kind(
        vocab_size=vocabulary,
        d_model=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        activation_function=config.activation,
        max_position_embeddings=LONGEST,
        scale_embedding=True,
        init_std=config.d_model**-0.5,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return make(settings)


class MarianTraining(nn.Module):
    """Maps (src, src_mask, tgt_in) to logits, for `torch_peer.PlainLoop`."""

    def __init__(self, vocabulary: int, config: TransformerConfig) -> None:
        super().__init__()
        self.marian = marian(vocabulary, config, norm="post")

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        logits: Tensor = self.marian(
            input_ids=src, attention_mask=src_mask, decoder_input_ids=tgt_in, use_cache=False
        ).logits
        return logits


class MarianDecoding:
    """Hugging Face's `generate` with the weights of a heed transformer.

    Raises:
        UnavailableError: transformers is not installed, or has no equivalent model.
    """

    def __init__(self, model: Transformer, *, longest: int) -> None:
        require("transformers")
        config = model.config
        sinusoidal = config.positions.kind == "sinusoidal" and config.positions.merge == "add"
        if config.norm == "none" or config.norm_kind != "layer" or not sinusoidal:
            raise UnavailableError("Marian and Pegasus support LayerNorm and added sinusoidal positions only")
        if model.output is not model.src_embedding or config.activation == "swiglu" or not config.residual:
            raise UnavailableError("Marian and Pegasus support tied embeddings, ReLU or GELU, and residual sums only")
        self.longest = longest
        self.marian = marian(model.output.num_embeddings, config, norm=config.norm).eval()
        self._copy_weights(model)

    def translate(self, batches: Sequence[tuple[Tensor, Tensor]], *, beam: int) -> list[list[int]]:
        """Return the target ids of all rows of all (src, src_mask)."""
        found = []
        with torch.inference_mode():
            for src, src_mask in batches:
                out = self.marian.generate(
                    input_ids=src,
                    attention_mask=src_mask.long(),
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=0.0,  # scores are log p, as on the other sides
                    max_new_tokens=self.longest,
                    suppress_tokens=[PAD, BOS],
                )
                found += [_until_eos(row) for row in out[:, 1:].tolist()]
        return found

    def _copy_weights(self, model: Transformer) -> None:
        theirs = self.marian.model
        with torch.no_grad():
            theirs.shared.weight.copy_(model.output.weight)
            if model.config.norm == "pre":
                theirs.encoder.layer_norm.load_state_dict(model.encoder_norm.state_dict())
                theirs.decoder.layer_norm.load_state_dict(model.decoder_norm.state_dict())
            for side in (theirs.encoder, theirs.decoder):
                table = side.embed_positions.weight
                # Their table has all sines first; it is a weight, so our order can be copied into it.
                table.copy_(model.src_positions(torch.zeros(1, *table.shape))[0])
            for layer, ours in zip(theirs.encoder.layers, modules(model.encoder), strict=True):
                _copy_attention(layer.self_attn, ours.self_attention)
                _copy_feed_forward(layer, ours.feed_forward)
                for norm, residual in zip(
                    (layer.self_attn_layer_norm, layer.final_layer_norm), ours.residuals, strict=True
                ):
                    norm.load_state_dict(residual.norm.state_dict())
            for layer, ours in zip(theirs.decoder.layers, modules(model.decoder), strict=True):
                _copy_attention(layer.self_attn, ours.self_attention)
                _copy_attention(layer.encoder_attn, ours.cross_attention)
                _copy_feed_forward(layer, ours.feed_forward)
                norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm
                for norm, residual in zip(norms, ours.residuals, strict=True):
                    norm.load_state_dict(residual.norm.state_dict())


def modules(layers: nn.ModuleList) -> list[Any]:
    """Return the layers of a stack without their static type, whose attributes mypy does not know."""
    return list(layers)


def _copy_attention(theirs: Any, ours: Any) -> None:
    theirs.q_proj.load_state_dict(ours.query.state_dict())
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    for projection, weight, bias in zip(
        (theirs.k_proj, theirs.v_proj), ours.key_value.weight.chunk(2), ours.key_value.bias.chunk(2), strict=True
    ):
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)


def _copy_feed_forward(theirs: Any, ours: Any) -> None:
    theirs.fc1.load_state_dict(ours.widen.state_dict())
    theirs.fc2.load_state_dict(ours.narrow.state_dict())


def _until_eos(row: list[int]) -> list[int]:
    """The ids before EOS. A row at the length limit has no EOS and may end in padding."""
    ids = row[: row.index(EOS)] if EOS in row else row
    return [token for token in ids if token != PAD]
