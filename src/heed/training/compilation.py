"""torch.compile for training steps."""

from collections.abc import Callable
from typing import Any

import torch

from heed.errors import HeedError
from heed.models.seq2seq import DecoderHidden, TrainableSeq2Seq
from heed.models.transformer import Transformer


def compiled_decode_hidden(
    model: TrainableSeq2Seq, backend: str | Callable[..., Any] = "inductor"
) -> Callable[..., DecoderHidden]:
    """Return ``model.decode_hidden`` compiled as one graph for batches of all sizes. ``backend`` is torch.compile's.

    Batches with and without source padding have a graph each.

    Raises:
        HeedError: if the model is no transformer: the time steps of an RNN would be one graph for each length.
    """
    if not isinstance(model, Transformer):
        raise HeedError("module.compile=true is for transformers: leave it out.")
    return torch.compile(model.decode_hidden, dynamic=True, fullgraph=True, backend=backend)
