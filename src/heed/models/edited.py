"""A model whose attention is edited, for search, which knows no edits."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.layers.edits import Edits, check_edits
from heed.models.seq2seq import DecoderOutput, DecoderState, Memory, Seq2Seq


class EditedModel(Seq2Seq):
    """``model`` with the same edits of its attention in every call.

    Args:
        edits: see `heed.layers.edits.Edit`. They are added to those of a call.
        prefix: tokens with which every translation starts. They count as certain: search scores what follows.
    """

    def __init__(self, model: Seq2Seq, edits: Edits, prefix: Sequence[int] = ()) -> None:
        super().__init__()
        check_edits(edits, model.attention_heads)
        self.model, self.edits, self.prefix = model, tuple(edits), tuple(prefix)
        same = ("config", "max_target_length", "attention_heads", "training")
        self.__dict__.update({name: getattr(model, name) for name in same if hasattr(model, name)})

    def encode(
        self,
        src: Int[Tensor, "B S"],
        src_mask: Bool[Tensor, "B S"] | None,
        *,
        src_lengths: Int[Tensor, " B"] | None = None,
        maps: bool = False,
        edits: Edits | None = None,
    ) -> Memory:
        return self.model.encode(src, src_mask, src_lengths=src_lengths, maps=maps, edits=[*self.edits, *(edits or ())])

    def decode(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False, edits: Edits | None = None
    ) -> DecoderOutput:
        return self.model.decode(tgt_in, memory, maps=maps, edits=[*self.edits, *(edits or ())])

    def start(self, memory: Memory) -> DecoderState:
        return self.model.start(memory)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits | None = None
    ) -> tuple[DecoderOutput, DecoderState]:
        output, after = self.model.step(tokens, state, maps=maps, edits=[*self.edits, *(edits or ())])
        if state.length < len(self.prefix):
            certain = torch.full_like(output.logits, -torch.inf)
            certain[..., self.prefix[state.length]] = 0
            output = replace(output, logits=certain)
        return output, after
