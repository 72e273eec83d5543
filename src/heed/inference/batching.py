"""Batches for inference: group sentences by length, pad token ids."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heed.symbols import PAD


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices into ``lengths``, longest first, so that each batch has similar lengths.

    Each batch has at most ``batch_tokens`` padded tokens (rows × longest length), except that an index whose length
    alone exceeds this has a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        size = max(1, batch_tokens // lengths[order[0]])
        yield order[:size]
        order = order[size:]


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return token ids padded on the right to the longest row, and the mask: True for tokens, False for padding."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return ids.to(device), mask.to(device)
