"""The contract every model signs: all that training, search and scoring may know about a model."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights, every row a distribution over what was looked at (or zeros where nothing could be).

    One shape for all models: an RNN has L = H = 1 and no self-attention, and none at all without attention.
    The encoder and the decoder may differ in depth, and self-attention has one head where it learns nothing.
    """

    cross: Float[Tensor, "Ld H B T S"] | None
    encoder_self: Float[Tensor, "Le Hs B S S"] | None
    decoder_self: Float[Tensor, "Ld Hs B T P"] | None
    """P = positions read so far: T under teacher forcing; T = 1 in a step."""


@dataclass(frozen=True)
class Memory:
    """A source batch after encoding: what the decoder may look at."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    final: tuple[Tensor, ...] | None = None
    """The state an RNN decoder starts from, in the model's own layout."""
    self_attention: Float[Tensor, "L H B S S"] | None = None
    """The encoder's maps, when they were asked for and exist."""


@dataclass(frozen=True)
class DecoderOutput:
    """Next-token scores, and the maps behind them when they were asked for."""

    logits: Float[Tensor, "B T V"]
    attention: AttentionMaps | None = None


@dataclass(frozen=True)
class DecoderHidden:
    """Logits that are still to be computed, states · tableᵀ + bias.

    Over a whole vocabulary they are by far the largest thing in training, and a loss need not have all at once.
    """

    states: Float[Tensor, "*B D"]
    table: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None

    def __getitem__(self, where: Bool[Tensor, "*B"] | slice) -> "DecoderHidden":
        """Those at some places only ("N D" states), or of some rows."""
        return replace(self, states=self.states[where])

    def logits(self) -> Float[Tensor, "*B V"]:
        return F.linear(self.states, self.table, self.bias)


class DecoderState(ABC):
    """What a model remembers between two steps, one row per partial hypothesis."""

    @abstractmethod
    def reorder(self, rows: Int[Tensor, " R2"]) -> "DecoderState":
        """The state whose row r is this state's row ``rows[r]``: rows may repeat (beams branch) or be left out."""


class ModelConfig(ABC):
    """An architecture as plain, validated data. Its constructor is the schema and rejects contradictions."""

    family: ClassVar[str]
    """The name under which model folders know this architecture."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """Layers of the encoder and the decoder together. Each has weights."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The largest of the sizes. Some weight is at least as long."""

    @abstractmethod
    def build(self, *, src_vocab: int, tgt_vocab: int, joint: bool) -> "TrainableSeq2Seq":
        """A freshly initialised model. ``joint``: both sides share one vocabulary, so that embeddings may be tied."""

    @abstractmethod
    def to_plain(self) -> dict[str, Any]:
        """Numbers, strings and nested dicts, from which ``from_plain`` makes an equal config."""

    @classmethod
    @abstractmethod
    def from_plain(cls, data: Any) -> "ModelConfig":
        """The config that ``to_plain`` wrote; a HeedError names every key that is unknown, missing or wrong."""


class Seq2Seq(nn.Module, ABC):
    """A model of p(target | source), factorised left to right.

    ``decode`` under teacher forcing and repeated ``step`` give the same logits. Masks say True = may attend. Nothing
    a model returns for one sentence depends on the others in its batch.
    """

    config: ModelConfig
    """What this model was built from."""
    max_target_length: int | None = None
    """The most steps it can take, where there is a limit; search stays within it."""

    @abstractmethod
    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        """Read the source once. Padding (mask False) may stand only behind a sentence."""

    @abstractmethod
    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        """Logits for every position under teacher forcing; position t sees ``tgt_in[:, : t + 1]`` only."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """The state before the first step, one row per sentence."""

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, DecoderState]:
        """One position further: logits "R 1 V" after ``tokens``, and the state that has read them.

        The given state stays valid: stepping from it again gives the same answer.
        """

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Teacher-forced logits, in one call."""
        return self.decode(tgt_in, self.encode(src, src_mask)).logits

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device


class TrainableSeq2Seq(Seq2Seq):
    """A model with weights of its own to learn; search, scoring and ensembles do without what it adds."""

    @abstractmethod
    def decode_hidden(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> DecoderHidden:
        """Teacher forcing up to the output layer."""
