"""Ensembles of models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import compat, kernels
from heed.functional.linear import Prepare
from heed.layers.attention_scores import SourceMask
from heed.layers.edits import Edits, check_edits
from heed.models.seq2seq import AttentionMaps, DecoderOutput, DecoderState, Lengths, Memory, Seq2Seq, SrcIds, Stack


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """The memories of all members. ``states`` are those of the first."""

    members: tuple[Memory, ...] = ()


@dataclass(frozen=True)
class EnsembleState(DecoderState):
    """The states of all members."""

    members: tuple[DecoderState, ...]
    length: int

    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None = None) -> "EnsembleState":
        return EnsembleState(tuple(state.reorder(rows, sentences) for state in self.members), self.length)


class Ensemble(Seq2Seq):
    """The average of the next-token probabilities of several models (Sutskever et al. 2014, table 1):

        p(y_t | y_<t, x) = 1/N Σₙ pₙ(y_t | y_<t, x).

    The logits it returns are log p. Members may be of different families and must have the same vocabularies, which is
    not checked here. An ensemble has no attention maps, and refuses edits of attention.
    """

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        assert members
        self.members = Stack(members)
        limits = [member.max_target_length for member in members if member.max_target_length is not None]
        self.max_target_length = min(limits, default=None)

    def fused(self, prepare: Prepare = kernels.prepared_linear) -> "Ensemble":
        return Ensemble([member.fused(prepare) for member in self.members]) if compat.is_unmodified(self) else self

    def encode(
        self, src: SrcIds, src_mask: SourceMask, *, src_lengths: Lengths = None, maps: bool = False, edits: Edits = None
    ) -> EnsembleMemory:
        check_edits(edits, self.attention_heads)
        memories = tuple(member.encode(src, src_mask, src_lengths=src_lengths) for member in self.members)
        return EnsembleMemory(memories[0].states, src_mask, members=memories)

    def decode(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False, edits: Edits = None
    ) -> DecoderOutput:
        check_edits(edits, self.attention_heads)
        assert isinstance(memory, EnsembleMemory)
        pairs = zip(self.members, memory.members, strict=True)
        return _average([member.decode(tgt_in, part).logits for member, part in pairs], maps=maps)

    def start(self, memory: Memory) -> EnsembleState:
        assert isinstance(memory, EnsembleMemory)
        pairs = zip(self.members, memory.members, strict=True)
        return EnsembleState(tuple(member.start(part) for member, part in pairs), length=0)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderOutput, EnsembleState]:
        check_edits(edits, self.attention_heads)
        assert isinstance(state, EnsembleState)
        pairs = zip(self.members, state.members, strict=True)
        outputs, states = zip(*(member.step(tokens, member_state) for member, member_state in pairs), strict=True)
        return _average([output.logits for output in outputs], maps=maps), EnsembleState(states, state.length + 1)


def _average(logits: Sequence[Float[Tensor, "B T V"]], *, maps: bool) -> DecoderOutput:
    log_p = torch.stack([each.log_softmax(-1) for each in logits]).logsumexp(0) - math.log(len(logits))
    return DecoderOutput(log_p, AttentionMaps() if maps else None)
