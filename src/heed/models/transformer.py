"""The transformer: encoder and decoder from heed's own attention blocks (Vaswani et al. 2017)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed.errors import HeedError
from heed.functional.masks import causal_mask
from heed.functional.precision import for_products
from heed.layers.attention import (
    Attention,
    KeyValue,
    MultiHeadAttention,
    ParameterFreeAttention,
    SelfAttentionConfig,
)
from heed.layers.dropout import Dropout
from heed.layers.embedding import TokenEmbedding
from heed.layers.feedforward import ACTIVATIONS, FeedForward
from heed.layers.norms import NORMS
from heed.layers.positions import PositionsConfig, RelativePositions
from heed.models.seq2seq import (
    AttentionMaps,
    DecoderHidden,
    DecoderOutput,
    DecoderState,
    Memory,
    ModelConfig,
    TrainableSeq2Seq,
)
from heed.options import Depth, from_plain

Shown = TypeVar("Shown")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """Every choice about the architecture; conf/model/transformer.yaml gives the reasons."""

    family: ClassVar[str] = "transformer"

    d_model: int
    num_heads: int
    d_ff: int
    encoder_layers: Depth
    decoder_layers: Depth
    dropout: float
    attention_dropout: float
    activation_dropout: float
    layer_dropout: float
    """Of whole layers."""
    norm: str
    """pre | post | none: where the norm stands relative to the residual sum."""
    norm_kind: str
    """layer | rms"""
    residual: bool
    """Without it a layer's output replaces its input instead of being added to it."""
    activation: str
    """relu | gelu | swiglu"""
    tie_embeddings: bool
    """The output layer is the target embedding, and the source embedding too where the vocabulary is joint."""
    self_attention: SelfAttentionConfig
    positions: PositionsConfig

    def __post_init__(self) -> None:
        for size in ("d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers"):
            if getattr(self, size) < 1:
                raise HeedError(f"model.{size}={getattr(self, size)}: at least 1 is needed.")
        for rate in ("dropout", "attention_dropout", "activation_dropout", "layer_dropout"):
            if not 0 <= getattr(self, rate) < 1:
                raise HeedError(f"model.{rate}={getattr(self, rate)} is no share to drop: choose one from 0 up to 1.")
        if self.d_model % self.num_heads:
            raise HeedError(
                f"model.d_model={self.d_model} cannot be divided among model.num_heads={self.num_heads} heads: "
                "choose a multiple."
            )
        if self.positions.kind == "rotary" and self.self_width % 2:
            raise HeedError(
                f"model.positions.kind=rotary turns pairs of numbers, but model.d_model={self.d_model} and "
                f"model.num_heads={self.num_heads} give each head of self-attention {self.self_width}, which is odd."
            )
        if self.norm not in ("pre", "post", "none"):
            raise HeedError(f"model.norm={self.norm} is unknown: choose pre, post or none.")
        if self.norm_kind not in NORMS:
            raise HeedError(f"model.norm_kind={self.norm_kind} is unknown: choose one of {', '.join(NORMS)}.")
        if self.norm == "none" and self.norm_kind != "layer":
            raise HeedError(
                f"model.norm_kind={self.norm_kind} chooses a norm, but model.norm=none has none: leave one of them out."
            )
        if self.activation not in ACTIVATIONS:
            raise HeedError(f"model.activation={self.activation} is unknown: choose one of {', '.join(ACTIVATIONS)}.")

    @property
    def self_heads(self) -> int:
        """Heads of self-attention: without parameters it has but one."""
        return self.num_heads if self.self_attention.kind == "qkv" else 1

    @property
    def self_width(self) -> int:
        """Width of each of them."""
        return self.d_model // self.self_heads

    @property
    def depth(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def width(self) -> int:
        return max(self.d_model, self.d_ff, self.positions.max_length or 0)

    def build(self, *, src_vocab: int, tgt_vocab: int, joint: bool) -> "Transformer":
        return Transformer(self, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Any) -> "TransformerConfig":
        return from_plain(cls, data, where="model.")


class Residual(nn.Module):
    """Pre-norm x + f(norm(x)) (Xiong et al. 2020, fig. 1b), post-norm norm(x + f(x)) (Vaswani 2017, §3.1).

    Either half can be left out, to see what it is for: the sum (He et al. 2016, eq. 1) and the norm.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.Identity() if config.norm == "none" else NORMS[config.norm_kind](config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"
        self.adds = config.residual

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], tuple[Tensor, Shown]]) -> tuple[Tensor, Shown]:
        """The sum, and whatever the sublayer has to show."""
        update, shown = sublayer(for_products(self.norm(x) if self.pre else x))
        update = self.dropout(update)
        x = x + update if self.adds else update
        return (x if self.pre else self.norm(x)), shown


class LayerDropout(nn.Module):
    """While training, each sentence skips a layer with probability p (LayerDrop: Fan et al. 2020).

    Drawn for each sentence rather than each batch, and computed all the same: so every weight has a gradient in every
    process, and the noise does not depend on how a step is cut into batches.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "B N D"], after: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """What comes out of a layer that makes ``after`` of ``x``."""
        if not (self.training and self.p):
            return after
        skipped = torch.rand(len(x), 1, 1, device=x.device) < self.p
        return torch.where(skipped, x, after)


def _self_attention(config: TransformerConfig, *, causal: bool) -> Attention:
    positions = config.positions.relative(num_heads=config.self_heads, width=config.self_width, causal=causal)
    scaled, dropout = config.self_attention.scaled, config.attention_dropout
    if config.self_attention.kind == "parameter_free":
        return ParameterFreeAttention(scaled=scaled, dropout=dropout, positions=positions)
    return MultiHeadAttention(
        d_model=config.d_model, num_heads=config.num_heads, scaled=scaled, dropout=dropout, positions=positions
    )


def _cross_attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        num_heads=config.num_heads,
        scaled=True,
        dropout=config.attention_dropout,
        positions=RelativePositions(),
    )


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
        self.self_attention = _self_attention(config, causal=False)
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

    cross: Float[Tensor, "R H T S"] | None
    decoder_self: Float[Tensor, "R Hs T P"] | None


class DecoderLayer(nn.Module):
    """Look back over what was written, look at the source, think."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = _self_attention(config, causal=True)
        self.cross_attention = _cross_attention(config)
        self.feed_forward = _feed_forward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        past: KeyValue | None,
        self_mask: Bool[Tensor, "#R 1 #T P"],
        memory: KeyValue,
        memory_mask: Bool[Tensor, "N 1 1 S"],
        *,
        maps: bool,
    ) -> tuple[Float[Tensor, "R T D"], KeyValue, LayerMaps]:
        """``past`` holds the keys and values of the positions before ``x`` (None: there are none).

        Rows may share a memory, equally many of them each: see `TransformerState`.

        Returned with the new states: ``past`` extended by them, and the maps.
        """

        def own_past(h: Tensor) -> tuple[Tensor, tuple[KeyValue, Tensor | None]]:
            present = self.self_attention.project(h, past)
            update, shown = self.self_attention(h, present, self_mask, maps=maps)
            return update, (present, shown)

        look_back, look_across, think = self.residuals
        x, (present, shown_self) = look_back(x, own_past)
        x, shown_cross = look_across(x, lambda h: self._look_across(h, memory, memory_mask, maps=maps))
        x, _ = think(x, lambda h: (self.feed_forward(h), None))
        return x, present, LayerMaps(shown_cross, shown_self)

    def _look_across(
        self, h: Float[Tensor, "R T D"], memory: KeyValue, mask: Bool[Tensor, "N 1 1 S"], *, maps: bool
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R H T S"] | None]:
        """Rows that share a memory query it together, as so many positions more."""
        N, T = mask.shape[0], h.shape[1]
        context, weights = self.cross_attention(h.reshape(N, -1, h.shape[2]), memory, mask, maps=maps)
        if weights is not None:
            weights = weights.unflatten(2, (-1, T)).transpose(1, 2).flatten(0, 1)
        return context.view(h.shape), weights


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """Per layer the cache of what was written and the projected memory; the mask; whose sentence each row is.

    If each sentence has equally many rows, one behind another, they share its memory: N sentences, R = N · K rows.
    """

    past: tuple[KeyValue | None, ...]
    memory: tuple[KeyValue, ...]
    memory_mask: Bool[Tensor, "N S"]
    sentence: Int[Tensor, " R"]
    length: int
    """Positions written so far, the same for all rows."""

    def reorder(self, rows: Int[Tensor, " R2"]) -> "TransformerState":
        sentences, place, sharing = torch.unique_consecutive(
            self.sentence[rows], return_inverse=True, return_counts=True
        )
        if bool((sharing != sharing[0]).any()):
            # Not equally many: each row gets a memory of its own.
            sentences, place = self.sentence[rows], torch.arange(len(rows), device=rows.device)
        # Beams mostly trade places within their sentence: no need to copy its memory.
        same = torch.equal(sentences, torch.arange(len(self.memory_mask), device=rows.device))
        return TransformerState(
            past=tuple(cache and cache.reorder(rows) for cache in self.past),
            memory=self.memory if same else tuple(layer.reorder(sentences) for layer in self.memory),
            memory_mask=self.memory_mask if same else self.memory_mask[sentences],
            sentence=place,
            length=self.length,
        )


class Transformer(TrainableSeq2Seq):
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
        self.src_positions = config.positions.absolute(d_model=config.d_model)
        self.tgt_positions = config.positions.absolute(d_model=config.d_model)
        self.dropout = Dropout(config.dropout)
        self.layer_dropout = LayerDropout(config.layer_dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # In a pre-norm stack the residual stream itself is never normalised: one norm at its end.
        pre = config.norm == "pre"
        self.encoder_norm = NORMS[config.norm_kind](config.d_model) if pre else nn.Identity()
        self.decoder_norm = NORMS[config.norm_kind](config.d_model) if pre else nn.Identity()

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        x = self.dropout(self.src_positions(self.src_embedding(src)))
        mask = src_mask[:, None, None, :]
        shown = []
        for layer in self.encoder:
            after, layer_map = layer(x, mask, maps=maps)
            x = self.layer_dropout(x, after)
            shown.append(layer_map)
        return Memory(
            self.encoder_norm(x), src_mask, self_attention=torch.stack(shown).transpose(1, 2) if maps else None
        )

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        mask = causal_mask(tgt_in.shape[1], tgt_in.device)[None, None]
        x, attention, _ = self._read(tgt_in, self._unread(memory), mask, memory.self_attention, maps=maps)
        return DecoderOutput(self.output.logits(x), attention)

    def decode_hidden(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> DecoderHidden:
        mask = causal_mask(tgt_in.shape[1], tgt_in.device)[None, None]
        x, *_ = self._read(tgt_in, self._unread(self.encode(src, src_mask)), mask, None, maps=False)
        return DecoderHidden(x, self.output.weight)

    def start(self, memory: Memory) -> TransformerState:
        state = self._unread(memory)
        # Heads split off a projection lie scattered, and a search reads these at every step.
        return replace(state, memory=tuple(layer.contiguous() for layer in state.memory))

    def _unread(self, memory: Memory) -> TransformerState:
        """Nothing written, the memory projected."""
        states = for_products(memory.states)
        return TransformerState(
            past=(None,) * len(self.decoder),
            memory=tuple(cast(DecoderLayer, layer).cross_attention.project(states) for layer in self.decoder),
            memory_mask=memory.mask,
            sentence=torch.arange(memory.mask.shape[0], device=memory.mask.device),
            length=0,
        )

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, TransformerState]:
        assert isinstance(state, TransformerState)
        mask = torch.ones(1, 1, 1, state.length + 1, dtype=torch.bool, device=tokens.device)
        x, attention, state = self._read(tokens[:, None], state, mask, None, maps=maps)
        return DecoderOutput(self.output.logits(x), attention), state

    def _read(
        self,
        tokens: Int[Tensor, "B T"],
        state: TransformerState,
        self_mask: Bool[Tensor, "1 1 T P"],
        encoder_maps: Float[Tensor, "Le H B S S"] | None,
        *,
        maps: bool,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps | None, TransformerState]:
        """What the output layer is given, where the decoder looked, and the next state.

        Teacher forcing and stepping are one computation: T new positions after ``state.length`` known ones.
        """
        x = self.dropout(self.tgt_positions(self.tgt_embedding(tokens), state.length))
        memory_mask = state.memory_mask[:, None, None, :]
        caches, cross, decoder_self = [], [], []
        for layer, past, memory in zip(self.decoder, state.past, state.memory, strict=True):
            after, present, shown = layer(x, past, self_mask, memory, memory_mask, maps=maps)
            x = self.layer_dropout(x, after)
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
        return (
            self.decoder_norm(x),
            attention,
            replace(state, past=tuple(caches), length=state.length + tokens.shape[1]),
        )


@contextmanager
def heads_off(model: Transformer, heads: Iterable[tuple[str, int, int]]) -> Iterator[None]:
    """Inside this context these heads contribute nothing, so that their importance can be measured.

    ``with heads_off(model, {("cross", 0, 3)}): …`` sets ξ_h = 0 for the fourth head of the first decoder layer's
    attention to the source (Michel et al. 2019, §2.3): it enters W^O as zeros. Maps still show where it looked.

    Args:
        heads: (which attention, layer, head), the first named as in AttentionMaps: encoder_self, decoder_self or
            cross; layers and heads counted from 0.
    """
    attentions: dict[str, list[Attention]] = {
        "encoder_self": [cast(EncoderLayer, layer).self_attention for layer in model.encoder],
        "decoder_self": [cast(DecoderLayer, layer).self_attention for layer in model.decoder],
        "cross": [cast(DecoderLayer, layer).cross_attention for layer in model.decoder],
    }
    with ExitStack() as hooks:
        for kind, layer, head in heads:
            known = attentions.get(kind, [])
            if not (layer in range(len(known)) and head in range(known[layer].num_heads)):
                raise HeedError(
                    f"There is no head {kind} {layer} {head} to switch off; this model has "
                    + ", ".join(f"{name}: {len(of)} layers of {of[0].num_heads}" for name, of in attentions.items())
                    + ", counted from 0."
                )
            output = known[layer].output
            hooks.enter_context(output.register_forward_pre_hook(_without(head, of=known[layer].num_heads)))
        yield


def _without(head: int, *, of: int) -> Callable[[nn.Module, tuple[Tensor]], Tensor]:
    """What zeroes one head's share of the contexts that stand side by side."""
    others = torch.arange(of) != head

    def silence(output: nn.Module, contexts: tuple[Tensor]) -> Tensor:
        (joined,) = contexts
        return (joined.view(*joined.shape[:-1], of, -1) * others.to(joined)[:, None]).flatten(-2)

    return silence
