"""A model whose attention is edited, for search, which knows no edits."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
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
        self.model, self.edits, self.prefix = model, tuple(edits or ()), tuple(prefix)
        for name in ("config", "max_target_length", "attention_heads", "training"):
            if hasattr(model, name):  # an ensemble has no configuration
                setattr(self, name, getattr(model, name))

    def encode(self, *inputs: Any, edits: Edits = None, **options: Any) -> Memory:
        return self.model.encode(*inputs, edits=[*self.edits, *(edits or ())], **options)

    def decode(self, *inputs: Any, edits: Edits = None, **options: Any) -> DecoderOutput:
        return self.model.decode(*inputs, edits=[*self.edits, *(edits or ())], **options)

    def start(self, memory: Memory) -> DecoderState:
        return self.model.start(memory)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderOutput, DecoderState]:
        output, after = self.model.step(tokens, state, maps=maps, edits=[*self.edits, *(edits or ())])
        if state.length < len(self.prefix):
            certain = torch.full_like(output.logits, -torch.inf)
            certain[..., self.prefix[state.length]] = 0
            output = replace(output, logits=certain)
        return output, after
