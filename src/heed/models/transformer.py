"""The transformer: encoder and decoder from heed's own attention blocks (Vaswani et al. 2017)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed.errors import HeedError
from heed.layers.attention import KeyValue, MultiHeadAttention
from heed.layers.embedding import TokenEmbedding
from heed.layers.feedforward import ACTIVATIONS, FeedForward
from heed.layers.masks import causal_mask
from heed.layers.positions import PositionsConfig
from heed.models.seq2seq import AttentionMaps, DecoderOutput, DecoderState, Memory, ModelConfig, Seq2Seq


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """Every choice about the architecture; conf/model/transformer.yaml gives the reasons."""

    family: ClassVar[str] = "transformer"

    d_model: int
    num_heads: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    dropout: float
    attention_dropout: float
    activation_dropout: float
    norm: str
    """pre | post: where LayerNorm stands relative to the residual sum."""
    activation: str
    """relu | gelu"""
    tie_embeddings: bool
    """The output layer is the target embedding, and the source embedding too where the vocabulary is joint."""
    positions: PositionsConfig

    def __post_init__(self) -> None:
        if self.d_model % self.num_heads:
            raise HeedError(
                f"model.d_model={self.d_model} cannot be divided among model.num_heads={self.num_heads} heads: "
                "choose a multiple."
            )
        if self.norm not in ("pre", "post"):
            raise HeedError(f"model.norm={self.norm} is unknown: choose pre or post.")
        if self.activation not in ACTIVATIONS:
            raise HeedError(f"model.activation={self.activation} is unknown: choose one of {', '.join(ACTIVATIONS)}.")
        if min(self.encoder_layers, self.decoder_layers) < 1:
            raise HeedError("model.encoder_layers and model.decoder_layers must be at least 1.")

    def build(self, *, src_vocab: int, tgt_vocab: int, joint: bool) -> "Transformer":
        return Transformer(self, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "TransformerConfig":
        return cls(**{**data, "positions": PositionsConfig(**data["positions"])})


class Residual(nn.Module):
    """Pre-norm x + f(LayerNorm(x)) (Xiong et al. 2020, fig. 1b), post-norm LayerNorm(x + f(x)) (Vaswani 2017, §3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], tuple[Tensor, Tensor | None]]
    ) -> tuple[Tensor, Tensor | None]:
        """The sum, and whatever the sublayer has to show (its attention weights, or None)."""
        update, shown = sublayer(self.norm(x) if self.pre else x)
        x = x + self.dropout(update)
        return (x if self.pre else self.norm(x)), shown


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(d_model=config.d_model, num_heads=config.num_heads, dropout=config.attention_dropout)


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        d_model=config.d_model,
        d_ff=config.d_ff,
        activation=config.activation,
        dropout=config.activation_dropout,
    )


class EncoderLayer(nn.Module):
    """Every source position looks at all of them, then thinks for itself."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.feed_forward = _feed_forward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(2))

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"], *, maps: bool
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B H S S"] | None]:
        look, think = self.residuals
        attention = self.self_attention
        x, shown = look(x, lambda h: attention(h, attention.project(h), mask, maps=maps))
        x, _ = think(x, lambda h: (self.feed_forward(h), None))
        return x, shown


@dataclass(frozen=True)
class LayerMaps:
    """What one decoder layer looked at, when that was asked for."""

    cross: Float[Tensor, "B H T S"] | None
    decoder_self: Float[Tensor, "B H T P"] | None


class DecoderLayer(nn.Module):
    """Look back over what was written, look at the source, think."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.cross_attention = _attention(config)
        self.feed_forward = _feed_forward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        past: KeyValue | None,
        self_mask: Bool[Tensor, "#B 1 #T P"],
        memory: KeyValue,
        memory_mask: Bool[Tensor, "B 1 1 S"],
        *,
        maps: bool,
    ) -> tuple[Float[Tensor, "B T D"], KeyValue, LayerMaps]:
        """``past`` holds the keys and values of the positions before ``x`` (None: there are none).

        Returned with the new states: ``past`` extended by them, and the maps.
        """
        look_back, look_across, think = self.residuals
        present = past

        def own_past(h: Tensor) -> tuple[Tensor, Tensor | None]:
            nonlocal present
            new = self.self_attention.project(h)
            present = new if past is None else past.append(new)
            attended: tuple[Tensor, Tensor | None] = self.self_attention(h, present, self_mask, maps=maps)
            return attended

        x, shown_self = look_back(x, own_past)
        x, shown_cross = look_across(x, lambda h: self.cross_attention(h, memory, memory_mask, maps=maps))
        x, _ = think(x, lambda h: (self.feed_forward(h), None))
        assert present is not None
        return x, present, LayerMaps(shown_cross, shown_self)


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """Per layer the cache of what was written and the projected memory; the mask; whose sentence each row is."""

    past: tuple[KeyValue | None, ...]
    memory: tuple[KeyValue, ...]
    memory_mask: Bool[Tensor, "R S"]
    sentence: Int[Tensor, " R"]
    length: int
    """Positions written so far, the same for all rows."""

    def reorder(self, rows: Int[Tensor, " R2"]) -> "TransformerState":
        sentence = self.sentence[rows]
        # Beams mostly trade places within their sentence, whose memory they share: no need to copy that.
        same = torch.equal(sentence, self.sentence)
        return TransformerState(
            past=tuple(cache and cache.reorder(rows) for cache in self.past),
            memory=self.memory if same else tuple(layer.reorder(rows) for layer in self.memory),
            memory_mask=self.memory_mask if same else self.memory_mask[rows],
            sentence=sentence,
            length=self.length,
        )


class Transformer(Seq2Seq):
    """Attention is all it has: no recurrence, so that all positions of a known target are computed at once."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> None:
        super().__init__()
        self.config = config
        self.tgt_embedding = TokenEmbedding(vocab_size=tgt_vocab, d_model=config.d_model)
        self.src_embedding = (
            self.tgt_embedding
            if joint and config.tie_embeddings
            else TokenEmbedding(vocab_size=src_vocab, d_model=config.d_model)
        )
        self.output = (
            self.tgt_embedding
            if config.tie_embeddings
            else TokenEmbedding(vocab_size=tgt_vocab, d_model=config.d_model)
        )
        self.max_target_length = config.positions.max_length
        self.src_positions = config.positions.build(config.d_model)
        self.tgt_positions = config.positions.build(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # In a pre-norm stack the residual stream itself is never normalised: one norm at its end.
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        x = self.dropout(self.src_positions(self.src_embedding(src)))
        mask = src_mask[:, None, None, :]
        shown = []
        for layer in self.encoder:
            x, layer_map = layer(x, mask, maps=maps)
            shown.append(layer_map)
        return Memory(
            self.encoder_norm(x), src_mask, self_attention=torch.stack(shown).transpose(1, 2) if maps else None
        )

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        mask = causal_mask(tgt_in.shape[1], tgt_in.device)[None, None]
        return self._decode(tgt_in, self.start(memory), mask, memory.self_attention, maps=maps)[0]

    def start(self, memory: Memory) -> TransformerState:
        return TransformerState(
            past=(None,) * len(self.decoder),
            memory=tuple(cast(DecoderLayer, layer).cross_attention.project(memory.states) for layer in self.decoder),
            memory_mask=memory.mask,
            sentence=torch.arange(memory.mask.shape[0], device=memory.mask.device),
            length=0,
        )

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, TransformerState]:
        assert isinstance(state, TransformerState)
        mask = torch.ones(1, 1, 1, state.length + 1, dtype=torch.bool, device=tokens.device)
        return self._decode(tokens[:, None], state, mask, None, maps=maps)

    def _decode(
        self,
        tokens: Int[Tensor, "B T"],
        state: TransformerState,
        self_mask: Bool[Tensor, "1 1 T P"],
        encoder_maps: Float[Tensor, "Le H B S S"] | None,
        *,
        maps: bool,
    ) -> tuple[DecoderOutput, TransformerState]:
        """Teacher forcing and stepping are one computation: T new positions after ``state.length`` known ones."""
        x = self.dropout(self.tgt_positions(self.tgt_embedding(tokens), state.length))
        memory_mask = state.memory_mask[:, None, None, :]
        caches, cross, decoder_self = [], [], []
        for layer, past, memory in zip(self.decoder, state.past, state.memory, strict=True):
            x, present, shown = layer(x, past, self_mask, memory, memory_mask, maps=maps)
            caches.append(present)
            cross.append(shown.cross)
            decoder_self.append(shown.decoder_self)
        attention = None
        if maps:
            attention = AttentionMaps(
                cross=torch.stack(cross).transpose(1, 2),
                encoder_self=encoder_maps,
                decoder_self=torch.stack(decoder_self).transpose(1, 2),
            )
        output = DecoderOutput(self.output.logits(self.decoder_norm(x)), attention)
        return output, replace(state, past=tuple(caches), length=state.length + tokens.shape[1])
