"""The configuration of the transformer."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from heed.errors import HeedError
from heed.layers.attention import SelfAttentionConfig
from heed.layers.feedforward import ACTIVATIONS
from heed.layers.norms import NORMS
from heed.layers.positions import PositionsConfig
from heed.models.seq2seq import ModelConfig
from heed.options import Depth, from_plain


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The architecture of a transformer. conf/model/transformer.yaml explains each option."""

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
    """Probability of skipping a whole layer."""
    norm: str
    """pre | post | none: the position of the norm relative to the residual sum."""
    norm_kind: str
    """layer | rms"""
    residual: bool
    """Add a sublayer's input to its output. Otherwise the output replaces the input."""
    activation: str
    """relu | gelu | swiglu"""
    tie_embeddings: bool
    """Share the output layer with the target embedding and, with a joint vocabulary, with the source embedding."""
    self_attention: SelfAttentionConfig
    positions: PositionsConfig

    def __post_init__(self) -> None:
        for size in ("d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers"):
            if getattr(self, size) < 1:
                raise HeedError(f"model.{size}={getattr(self, size)} must be at least 1.")
        for rate in ("dropout", "attention_dropout", "activation_dropout", "layer_dropout"):
            if not 0 <= getattr(self, rate) < 1:
                raise HeedError(f"model.{rate}={getattr(self, rate)} must be in [0, 1).")
        if self.d_model % self.num_heads:
            raise HeedError(f"model.d_model={self.d_model} must be a multiple of model.num_heads={self.num_heads}.")
        if self.positions.kind == "rotary" and self.self_width % 2:
            raise HeedError(
                f"model.positions.kind=rotary needs an even number of dimensions per head, but model.d_model="
                f"{self.d_model} and model.num_heads={self.num_heads} give {self.self_width}."
            )
        if self.norm not in ("pre", "post", "none"):
            raise HeedError(f"model.norm={self.norm} is unknown: choose pre, post or none.")
        if self.norm_kind not in NORMS:
            raise HeedError(f"model.norm_kind={self.norm_kind} is unknown: choose one of {', '.join(NORMS)}.")
        if self.norm == "none" and self.norm_kind != "layer":
            raise HeedError(
                f"model.norm_kind={self.norm_kind} has no effect with model.norm=none: leave one of them out."
            )
        if self.activation not in ACTIVATIONS:
            raise HeedError(f"model.activation={self.activation} is unknown: choose one of {', '.join(ACTIVATIONS)}.")

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

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Any) -> "TransformerConfig":
        return from_plain(cls, data, where="model.")
