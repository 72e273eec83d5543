"""The transformer (Vaswani et al. 2017)."""

from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed import compat, kernels
from heed.functional.linear import Prepare
from heed.layers.attention import (
    PRODUCTS,
    Attention,
    CrossAttention,
    KeyValue,
    MultiHeadAttention,
    ParameterFreeAttention,
    SelfAttention,
)
from heed.layers.attention_scores import SourceMask
from heed.layers.dropout import Dropout, LayerDropout
from heed.layers.edits import NO_EDITS, Edits, LayerEdits, check_edits, layer_edits
from heed.layers.embedding import embeddings
from heed.layers.feedforward import FeedForward
from heed.layers.fused import FusedLayer, fused_norm
from heed.layers.positions import RELATIVE, RelativePositions
from heed.layers.residual import (
    NORMS,
    CrossAttentionBlock,
    FeedForwardBlock,
    Residual,
    ResidualOptions,
    SelfAttentionBlock,
)
from heed.models.seq2seq import (
    AttentionMaps,
    DecoderHidden,
    DecoderOutput,
    DecoderState,
    Lengths,
    Memory,
    Seq2Seq,
    SrcIds,
    Stack,
    TrainableSeq2Seq,
)
from heed.models.transformer_config import TransformerConfig


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttentionBlock(
            SelfAttention(_self_attention(config, causal=False)), _residual(config)
        )
        self.feed_forward = FeedForwardBlock(_feed_forward(config), _residual(config))

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
        *,
        maps: bool,
        edits: LayerEdits = NO_EDITS,
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B H S S"] | None]:
        x, _, weights = self.self_attention(x, None, mask, maps=maps, edit=edits.get("encoder_self"))
        x = self.feed_forward(x)
        return x, weights


class DecoderLayer(nn.Module):
    """Causal self-attention over the target, cross-attention to the source, then a feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttentionBlock(SelfAttention(_self_attention(config, causal=True)), _residual(config))
        cross_attention = MultiHeadAttention(
            d_model=config.d_model,
            num_heads=config.num_heads,
            score=config.cross_attention.score,
            dropout=config.attention_dropout,
            positions=RelativePositions(),
        )
        self.cross_attention = CrossAttentionBlock(CrossAttention(cross_attention), _residual(config))
        self.feed_forward = FeedForwardBlock(_feed_forward(config), _residual(config))

    def project(self, memory: Float[Tensor, "N S D"]) -> KeyValue:
        """Return the keys and values of the source for cross-attention."""
        return self.cross_attention.sublayer.attention.project(memory)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        past: KeyValue | None,
        memory: KeyValue,
        memory_mask: Bool[Tensor, "N 1 1 S"] | None,
        *,
        maps: bool,
        edits: LayerEdits = NO_EDITS,
    ) -> tuple[Float[Tensor, "R T D"], KeyValue, Float[Tensor, "R H T S"] | None, Float[Tensor, "R Hs T P"] | None]:
        """Return the output, ``past`` extended by T new positions, and the cross- and self-attention if ``maps``.

        ``memory`` is the result of :meth:`project`, shared by R / N consecutive rows each.
        """
        x, past, self_weights = self.self_attention(x, past, "causal", maps=maps, edit=edits.get("decoder_self"))
        x, cross_weights = self.cross_attention(x, memory, memory_mask, maps=maps, edit=edits.get("cross"))
        x = self.feed_forward(x)
        return x, past, cross_weights, self_weights


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """What every decoder layer has seen: its KV cache, and the keys and values of the source."""

    past: tuple[KeyValue | None, ...]
    memory: tuple[KeyValue, ...]  # one row per sentence, which its hypotheses share
    memory_mask: Bool[Tensor, "N S"] | None
    length: int

    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None = None) -> "TransformerState":
        state = replace(self, past=tuple(cache and cache.reorder(rows) for cache in self.past))
        if sentences is None:
            return state
        mask = None if self.memory_mask is None else self.memory_mask[sentences]
        return replace(state, memory=tuple(layer.reorder(sentences) for layer in self.memory), memory_mask=mask)


class Transformer(TrainableSeq2Seq):
    """The encoder-decoder transformer."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> None:
        super().__init__()
        self.config = config
        self.tgt_embedding, self.src_embedding, self.output = embeddings(
            src_vocab=src_vocab, tgt_vocab=tgt_vocab, d_model=config.d_model, joint=joint, tie=config.tie_embeddings
        )
        self.output_bias = nn.Parameter(torch.zeros(tgt_vocab)) if config.output_bias else None
        self.max_target_length = config.positions.max_length
        self.src_positions = config.positions.absolute(d_model=config.d_model)
        self.tgt_positions = config.positions.absolute(d_model=config.d_model)
        self.dropout = Dropout(config.dropout)
        self.layer_dropout = LayerDropout(config.layer_dropout)
        self.encoder = Stack(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = Stack(DecoderLayer(config) for _ in range(config.decoder_layers))
        # With pre-norm the residual stream itself is not normalised, so one norm follows the last layer.
        pre_norm = config.norm == "pre"
        self.encoder_norm = NORMS[config.norm_kind](config.d_model) if pre_norm else nn.Identity()
        self.decoder_norm = NORMS[config.norm_kind](config.d_model) if pre_norm else nn.Identity()
        self.attention_heads = {
            "cross": (config.decoder_layers, config.num_heads),
            "encoder_self": (config.encoder_layers, config.self_heads),
            "decoder_self": (config.decoder_layers, config.self_heads),
        }

    def encode(
        self, src: SrcIds, src_mask: SourceMask, *, src_lengths: Lengths = None, maps: bool = False, edits: Edits = None
    ) -> Memory:
        check_edits(edits, self.attention_heads)
        x = self.dropout(self.src_positions(self.src_embedding(src)))
        mask = key_mask(src_mask)
        weights = []
        for number, layer in enumerate(self.encoder):
            # With edits, no layer uses a fused kernel.
            own = layer_edits(edits, number, 0, src.shape[1])
            output, layer_weights = layer(x, mask, maps=maps or bool(edits), edits=own)
            x = self.layer_dropout(x, output)
            weights.append(layer_weights)
        return Memory(self.encoder_norm(x), src_mask, self_attention=_stack(weights) if maps else None)

    def start(self, memory: Memory) -> TransformerState:
        states = kernels.cast_for_matmul(memory.states)
        layers = tuple(layer.project(states) for layer in self.decoder)
        return TransformerState((None,) * len(self.decoder), layers, memory.mask, length=0)

    def run_decoder(
        self, tokens: Int[Tensor, "R T"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderHidden, AttentionMaps | None, TransformerState]:
        assert isinstance(state, TransformerState)
        check_edits(edits, self.attention_heads)
        x = self.dropout(self.tgt_positions(self.tgt_embedding(tokens), state.length))
        memory_mask = key_mask(state.memory_mask)
        caches, cross, decoder_self = [], [], []
        for number, (layer, past, memory) in enumerate(zip(self.decoder, state.past, state.memory, strict=True)):
            own = layer_edits(edits, number, state.length, tokens.shape[1])
            output, present, cross_weights, self_weights = layer(
                x, past, memory, memory_mask, maps=maps or bool(edits), edits=own
            )
            x = self.layer_dropout(x, output)
            caches.append(present)
            cross.append(cross_weights)
            decoder_self.append(self_weights)
        hidden = DecoderHidden(self.decoder_norm(x), self.output.weight, self.output_bias)
        attention = AttentionMaps(cross=_stack(cross), decoder_self=_stack(decoder_self)) if maps else None
        return hidden, attention, replace(state, past=tuple(caches), length=state.length + tokens.shape[1])

    def fused(self, prepare: Prepare = kernels.prepared_linear) -> Seq2Seq:
        return FusedTransformer(self, prepare) if _has_fused_steps(self) else self

    def mix_inputs(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, is_gold: Bool[Tensor, "B T"]
    ) -> Int[Tensor, "B T"]:
        """Replace target inputs by predictions, as described in `TrainableSeq2Seq`, but all at once.

        The predictions are those of one pass under teacher forcing, so each follows gold inputs only (Mihaylova and
        Martins 2019, §3). Predicting token by token would take as many passes as there are tokens.
        """
        predicted = self.run_decoder(tgt_in, self.start(memory))[0].best_tokens().to(tgt_in.dtype)
        return tgt_in.where(is_gold, torch.cat((tgt_in[:, :1], predicted[:, :-1]), 1))


class FusedTransformer(Seq2Seq):
    """``model`` with fused search steps, without gradient.

    For a single sentence, calling the modules takes as long as the matrix products. A fused step has one call per
    layer, and one product for queries, keys and values.
    """

    def __init__(self, model: Transformer, prepare: Prepare) -> None:
        super().__init__()
        self.model, self.config, self.training = model, model.config, model.training
        self.max_target_length, self.attention_heads = model.max_target_length, model.attention_heads
        self.layers = tuple(
            FusedLayer(layer.self_attention, layer.cross_attention, layer.feed_forward, prepare)
            for layer in model.decoder
        )
        self.norm = fused_norm(model.decoder_norm)
        self.output = prepare((model.output.weight, model.output_bias))

    def encode(
        self, src: SrcIds, src_mask: SourceMask, *, src_lengths: Lengths = None, maps: bool = False, edits: Edits = None
    ) -> Memory:
        return self.model.encode(src, src_mask, src_lengths=src_lengths, maps=maps, edits=edits)

    def decode(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False, edits: Edits = None
    ) -> DecoderOutput:
        return self.model.decode(tgt_in, memory, maps=maps, edits=edits)

    def start(self, memory: Memory) -> TransformerState:
        state = self.model.start(memory)
        # Make each head contiguous once, because every step reads the keys and values of the source.
        layers = tuple(KeyValue(layer.key.contiguous(), layer.value.contiguous()) for layer in state.memory)
        return replace(state, memory=layers)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderOutput, DecoderState]:
        if maps or edits:
            return self.model.step(tokens, state, maps=maps, edits=edits)
        assert isinstance(state, TransformerState)
        x = self.model.tgt_positions(self.model.tgt_embedding(tokens[:, None]), state.length).squeeze(1)
        memory_mask = key_mask(state.memory_mask)
        caches = []
        for layer, past, memory in zip(self.layers, state.past, state.memory, strict=True):
            x, present = layer(x, past, memory, memory_mask)
            caches.append(present)
        logits = self.output(self.norm(x))[:, None]
        return DecoderOutput(logits), replace(state, past=tuple(caches), length=state.length + 1)


def _has_fused_steps(model: Transformer) -> bool:
    """Return whether the decoder has the layer order and module classes that `FusedLayer` implements, unmodified.

    This excludes no norm, no residual connections, and self-attention that is parameter-free or has relative positions.
    """
    config = model.config
    if config.norm == "none" or config.self_attention.kind != "qkv" or config.positions.kind in RELATIVE:
        return False
    if not {config.self_attention.score, config.cross_attention.score} <= {*PRODUCTS}:
        return False
    used = [model.dropout, model.layer_dropout, *model.decoder.modules(), model.decoder_norm, model.output]
    return (
        compat.is_unmodified(model)
        and all(compat.is_unmodified(module) and not module.training for module in used)
        and all(_classes(layer) == _classes_of_new_layer(config) for layer in model.decoder)
        and all(module.add for module in used if isinstance(module, Residual))
        and type(model.output) is type(model.tgt_embedding)
    )


def _classes(layer: nn.Module) -> dict[str, type[nn.Module]]:
    """Return the classes of a layer's modules by their names."""
    return {name: type(module) for name, module in layer.named_modules(remove_duplicate=False)}


@cache
def _classes_of_new_layer(config: TransformerConfig) -> dict[str, type[nn.Module]]:
    with torch.device("meta"):
        return _classes(DecoderLayer(config))


def key_mask(mask: Bool[Tensor, "B S"] | None) -> Bool[Tensor, "B 1 1 S"] | None:
    """Return a padding mask in the shape that attention takes: the same keys for all heads and queries."""
    return None if mask is None else mask[:, None, None, :]


def _stack(layers: list[Float[Tensor, "B H Q K"] | None]) -> Float[Tensor, "L H B Q K"] | None:
    """Stack the attention weights of all layers; None if they were not requested or do not exist."""
    weights = [layer for layer in layers if layer is not None]
    return torch.stack(weights).transpose(1, 2) if weights else None


def _residual(config: TransformerConfig) -> ResidualOptions:
    return ResidualOptions(
        d_model=config.d_model,
        dropout=config.dropout,
        norm=config.norm,
        norm_kind=config.norm_kind,
        add=config.residual,
    )


def _self_attention(config: TransformerConfig, *, causal: bool) -> Attention:
    positions = config.positions.relative(num_heads=config.self_heads, width=config.self_width, causal=causal)
    d_model, score, dropout = config.d_model, config.self_attention.score, config.attention_dropout
    if config.self_attention.kind == "parameter_free":
        return ParameterFreeAttention(d_model=d_model, score=score, dropout=dropout, positions=positions)
    return MultiHeadAttention(
        d_model=d_model, num_heads=config.num_heads, score=score, dropout=dropout, positions=positions
    )


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        d_model=config.d_model, d_ff=config.d_ff, activation=config.activation, dropout=config.activation_dropout
    )
