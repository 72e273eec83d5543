"""Build the model of a run, and explain why one is too large."""

import torch

from heed import models
from heed.compat import memory_bytes
from heed.errors import HeedError, first_line
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq


def build_model(architecture: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Build the model with random weights.

    Raises:
        HeedError: if the weights are larger than this machine's memory.
    """
    model = build_on_meta(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
    needed = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    memory = memory_bytes()
    if memory is not None and needed > memory:
        raise HeedError(
            f"This model's weights need {needed / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f}: choose "
            "smaller sizes (model.*) or a smaller vocabulary (tokenizer.vocab_size)."
        )
    return models.build_model(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)


def build_on_meta(architecture: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Build the model on torch's meta device: shapes only, no memory.

    Raises:
        HeedError: if its tensors are larger than torch allows.
    """
    try:
        with torch.device("meta"):
            return models.build_model(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
    except (RuntimeError, OverflowError, MemoryError, TypeError) as error:  # TypeError: a size beyond 64 bits
        raise HeedError(f"This model is too large ({first_line(error)}): choose smaller sizes (model.*).") from error
