"""The interface that every model implements. Training, search and scoring know nothing else about a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed import kernels, options
from heed.functional.linear import Prepare
from heed.layers.attention_scores import SourceMask
from heed.layers.edits import Edits, Heads
from heed.symbols import BOS, PAD

SrcIds = Int[Tensor, "B S"]
Lengths = Int[Tensor, " B"] | None
ModuleT = TypeVar("ModuleT", bound=nn.Module)

ARGMAX_ROWS = 512  # rows whose logits exist at a time in `DecoderHidden.best_tokens`


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights. Each row is a distribution over the keys, or zeros if there was no key to attend to.

    The rows of local-p attention have smaller sums (`heed.layers.reach`).

    All models use these shapes. An RNN has L = H = 1 and no self-attention; without attention it has no cross-attention
    either. Encoder and decoder may differ in depth (Le, Ld), and parameter-free self-attention has one head (Hs).
    """

    cross: Float[Tensor, "Ld H B T S"] | None = None
    encoder_self: Float[Tensor, "Le Hs B S S"] | None = None
    decoder_self: Float[Tensor, "Ld Hs B T P"] | None = None
    """P is the number of target positions so far. In a search step T = 1."""


@dataclass(frozen=True)
class Memory:
    """An encoded batch of source sentences."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"] | None
    """True at tokens, False at padding; None: there is no padding."""
    final: tuple[Tensor, ...] | None = None
    """The encoder's final state, from which an RNN decoder starts. Its layout is private to the model."""
    self_attention: Float[Tensor, "L H B S S"] | None = None
    """The attention weights of the encoder, if requested and existing."""


@dataclass(frozen=True)
class DecoderOutput:
    """Logits of the next token, and the attention maps if requested."""

    logits: Float[Tensor, "B T V"]
    attention: AttentionMaps | None = None


@dataclass(frozen=True)
class DecoderHidden:
    """The decoder's output before the output layer: logits = states · weightᵀ + bias.

    The logits of a whole batch are by far the largest tensor in training. The loss computes them in parts.
    """

    states: Float[Tensor, "*B D"]
    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None

    def logits(self) -> Float[Tensor, "*B V"]:
        return F.linear(self.states, self.weight, self.bias)

    def best_tokens(self) -> Int[Tensor, "*B"]:
        """Return the most probable token of each row: as in search, never PAD or BOS."""
        states, best = self.states.flatten(0, -2), []
        for start in range(0, len(states), ARGMAX_ROWS):
            logits = replace(self, states=states[start : start + ARGMAX_ROWS]).logits()
            logits[:, PAD] = logits[:, BOS] = -torch.inf
            best.append(logits.argmax(1))
        return torch.cat(best).view(self.states.shape[:-1])

    def loss(
        self,
        target: Int[Tensor, "*B T"],
        positions: Int[Tensor, " N"],
        *,
        label_smoothing: float,
        r_drop: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the training loss and the negative log-likelihood, as sums over target tokens, in nats.

        The loss is the label-smoothed cross-entropy (`heed.functional.cross_entropy`) or, with ``r_drop``, that of two
        passes of the model (`heed.functional.r_drop_loss`). The states of sentence b are then the rows 2 b and 2 b + 1.

        Args:
            positions: the tokens to sum over, as positions in the flattened ``target``. Padding is left out, and a mask
                of it would make the host wait for the device.
        """
        states, tokens = self.states.flatten(0, -2), target.flatten().index_select(0, positions).long()
        layer = (self.weight, self.bias, tokens)
        if not r_drop:
            return kernels.cross_entropy(states.index_select(0, positions), *layer, label_smoothing=label_smoothing)
        length = target.shape[-1]
        first = positions + positions // length * length
        hidden = torch.stack([states.index_select(0, first), states.index_select(0, first + length)])
        return kernels.r_drop_loss(hidden, *layer, label_smoothing=label_smoothing, alpha=r_drop)


class DecoderState(ABC):
    """The state of a model between two search steps, one row per partial hypothesis."""

    length: int  # the number of target positions so far, the same for all rows

    @abstractmethod
    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None = None) -> "DecoderState":
        """Return a state whose row r is this state's row ``rows[r]``. Rows may be repeated or left out.

        All sentences have the same number of rows, and the rows of a sentence are consecutive. Therefore a state can
        keep the source once per sentence. It knows to which sentence a row belongs without reading ``rows``, which
        would synchronize the host with the device.

        Args:
            sentences: the new state's sentences as numbers of this state's; None: all of them, in their order.
        """


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ABC):
    """An architecture as plain data. The constructor rejects wrong values and contradictions."""

    family: ClassVar[str]  # the name of the architecture in model folders
    second_width: ClassVar[str]  # the option with the other width of the architecture, besides ``d_model``

    def __post_init__(self) -> None:
        options.raise_problems(self._contradictions())

    @abstractmethod
    def _contradictions(self) -> Iterator[str]:
        """Return what contradicts what, one sentence each."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The number of layers of encoder and decoder together. Each has weights."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The largest width. Some weight has at least this many elements."""

    @property
    @abstractmethod
    def width_multiple(self) -> int:
        """``d_model``, the width of the states in all families, must be a multiple of this."""

    @property
    def length_limits(self) -> dict[str, tuple[float, float, float]]:
        """The most source and target positions, and both together, by the option that limits them, with its value."""
        return {}

    def to_plain(self) -> dict[str, Any]:
        """Return numbers, strings and nested dicts from which ``from_plain`` makes an equal configuration."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Any) -> "ModelConfig":
        """Return the configuration that ``to_plain`` wrote.

        Raises:
            HeedError: naming every key that is unknown, missing or has a wrong value.
        """
        return options.from_plain(cls, data, where="model.")


class Seq2Seq(nn.Module, ABC):
    """A model of p(target | source), factorised left to right.

    ``decode`` (teacher forcing) and repeated ``step`` give the same logits. In masks, True = may attend. The output for
    a sentence does not depend on the other sentences in its batch.
    """

    config: ModelConfig  # the configuration from which this model was built
    max_target_length: int | None = None  # in target positions, if there is a limit; search stays within it
    attention_heads: Heads = MappingProxyType({})  # the attention that can be edited

    @abstractmethod
    def encode(
        self, src: SrcIds, src_mask: SourceMask, *, src_lengths: Lengths = None, maps: bool = False, edits: Edits = None
    ) -> Memory:
        """Encode source sentences.

        Args:
            src_mask: True at tokens, False at padding, which must follow the sentence; None: there is no padding.
            src_lengths: the lengths of the sentences, on the CPU. None: an encoder that needs them there reads them
                from the mask, which waits for the device.
            edits: replace attention weights, here and below. Maps show the new weights. Attention that the model does
                not have raises a HeedError.
        """

    @abstractmethod
    def decode(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False, edits: Edits = None
    ) -> DecoderOutput:
        """Return the logits of every position under teacher forcing. Position t depends on ``tgt_in[:, : t + 1]``."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first target position, one row per sentence."""

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderOutput, DecoderState]:
        """Decode one more position: return the logits "R 1 V" that follow ``tokens``, and the next state.

        The given state is not modified.
        """

    def fused(self, prepare: Prepare = kernels.prepared_linear) -> "Seq2Seq":
        """Return a model with equal results and faster search steps, or this one if it has none.

        The result may hold copies of weights. Use it without gradient, and create a new one after weights have changed.

        Args:
            prepare: returns the function that multiplies by given weights.
        """
        return self

    def forward(self, src: SrcIds, src_mask: SourceMask, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Encode and decode under teacher forcing."""
        return self.decode(tgt_in, self.encode(src, src_mask)).logits

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device


class TrainableSeq2Seq(Seq2Seq):
    """A model that can be trained. Search, scoring and ensembles need `Seq2Seq` only.

    Teacher forcing is one call of `run_decoder` with all positions, a search step a call with one.
    """

    @abstractmethod
    def run_decoder(
        self, tokens: Int[Tensor, "R T"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderHidden, AttentionMaps | None, DecoderState]:
        """Run the decoder on T new positions after those of ``state``.

        Returns:
            The input of the output layer, the decoder's attention maps if requested, and the next state.
        """

    def decode(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False, edits: Edits = None
    ) -> DecoderOutput:
        hidden, attention, _ = self.run_decoder(tgt_in, self.start(memory), maps=maps, edits=edits)
        if attention is not None:
            attention = replace(attention, encoder_self=memory.self_attention)
        return DecoderOutput(hidden.logits(), attention)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderOutput, DecoderState]:
        hidden, attention, state = self.run_decoder(tokens[:, None], state, maps=maps, edits=edits)
        return DecoderOutput(hidden.logits(), attention), state

    def mix_inputs(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, is_gold: Bool[Tensor, "B T"]
    ) -> Int[Tensor, "B T"]:
        """Replace target inputs by the model's own predictions: scheduled sampling (Bengio et al. 2015, §2.4).

        A prediction is the most probable token after the mixed inputs before it. If no input is gold, the model runs
        freely. BOS, the first input, is always kept.

        Args:
            is_gold: True at inputs to keep.
        """
        state, mixed = self.start(memory), [tgt_in[:, 0]]
        for gold, keep in zip(tgt_in[:, 1:].unbind(1), is_gold[:, 1:].unbind(1), strict=True):
            hidden, _, state = self.run_decoder(mixed[-1][:, None], state)
            mixed.append(gold.where(keep, hidden.best_tokens()[:, 0].to(gold.dtype)))
        return torch.stack(mixed, 1)

    def decode_hidden(
        self, src: SrcIds, src_mask: SourceMask, tgt_in: Int[Tensor, "B T"], *, src_lengths: Lengths = None
    ) -> DecoderHidden:
        """Encode (see `encode`), and decode under teacher forcing, without the output layer."""
        memory = self.encode(src, src_mask, src_lengths=src_lengths)
        return self.run_decoder(tgt_in, self.start(memory))[0]


class Stack(nn.ModuleList, Generic[ModuleT]):
    """`nn.ModuleList` with the class of its modules, which the type checker cannot know otherwise."""

    def __init__(self, modules: Iterable[ModuleT]) -> None:
        super().__init__(modules)

    def __iter__(self) -> Iterator[ModuleT]:
        return super().__iter__()  # type: ignore[return-value]

    def __getitem__(self, index: int) -> ModuleT:  # type: ignore[override]
        return super().__getitem__(index)  # type: ignore[return-value]
