"""The configuration of the transformer."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from heed.layers.attention import PRODUCTS, CrossAttentionConfig, SelfAttentionConfig
from heed.layers.positions import PositionsConfig
from heed.models.seq2seq import ModelConfig
from heed.options import AtLeast1, Depth, UnitInterval, validated


@validated("model.")
@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The architecture of a transformer. conf/model/transformer.yaml explains each option."""

    family: ClassVar[str] = "transformer"
    second_width: ClassVar[str] = "d_ff"

    d_model: AtLeast1
    num_heads: AtLeast1
    d_ff: AtLeast1
    encoder_layers: Depth
    decoder_layers: Depth
    dropout: UnitInterval
    attention_dropout: UnitInterval
    activation_dropout: UnitInterval
    layer_dropout: UnitInterval
    """Probability of skipping a whole layer."""
    norm: Literal["pre", "post", "none"]
    """The position of the norm relative to the residual sum."""
    norm_kind: Literal["layer", "rms"]
    residual: bool
    """Add a sublayer's input to its output. Otherwise the output replaces the input."""
    activation: Literal["relu", "gelu", "silu", "swiglu"]
    tie_embeddings: bool
    """Share the output layer with the target embedding and, with a joint vocabulary, with the source embedding."""
    output_bias: bool = False
    """Add a learned number to the logit of each target piece. Without a value, as in older models, there is none."""
    self_attention: SelfAttentionConfig
    cross_attention: CrossAttentionConfig
    positions: PositionsConfig

    def _contradictions(self) -> Iterator[str]:
        if self.d_model % self.num_heads:
            yield f"model.d_model={self.d_model} must be a multiple of model.num_heads={self.num_heads}."
        if self.positions.kind == "rotary" and self.self_width % 2:
            yield (
                f"model.positions.kind=rotary needs an even number of dimensions per head, but model.d_model="
                f"{self.d_model} and model.num_heads={self.num_heads} give {self.self_width}."
            )
        if self.positions.kind == "rotary" and self.self_attention.score not in PRODUCTS:
            yield (
                f"model.positions.kind=rotary rotates the factors of a product: choose model.self_attention.score="
                f"{' or '.join(PRODUCTS)} instead of {self.self_attention.score}, or other positions."
            )
        if self.norm == "none" and self.norm_kind != "layer":
            yield (f"model.norm_kind={self.norm_kind} has no effect with model.norm=none: leave one of them out.")

    @property
    def self_heads(self) -> int:
        """The number of heads of self-attention. Parameter-free attention has one."""
        return self.num_heads if self.self_attention.kind == "qkv" else 1

    @property
    def self_width(self) -> int:
        """The width of each of them."""
        return self.d_model // self.self_heads

    @property
    def depth(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def width(self) -> int:
        return max(self.d_model, self.d_ff, self.positions.max_length or 0)

    @property
    def width_multiple(self) -> int:
        return self.num_heads * (2 if self.positions.kind == "rotary" else 1)

    @property
    def length_limits(self) -> dict[str, tuple[float, float, float]]:
        limit = self.positions.max_length
        return {f"model.positions.max_length={limit}": (float(limit), float(limit), inf)} if limit else {}
