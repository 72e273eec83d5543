"""Batches for inference: group sentences by length, compute batch by batch, pad token ids."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heed.errors import HeedError
from heed.inference.lines import LineError
from heed.symbols import PAD

Result = TypeVar("Result")


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


def in_batches(
    compute: Callable[[list[int]], Sequence[Result]],
    lengths: Sequence[int],
    batch_tokens: int,
    *,
    first_line: int,
    on_batch: Callable[[float], object],
) -> list[Result]:
    """Compute a result for each sentence, in the batches of `length_batches`.

    Args:
        compute: returns the results of a batch of indices into ``lengths``.
        first_line: number of the first sentence in error messages.
        on_batch: called with the number of sentences after each batch.

    Raises:
        LineError: if ``compute`` refuses a batch. It names the longest sentence, the first of the batch.
    """
    results: dict[int, Result] = {}
    for rows in length_batches(lengths, batch_tokens):
        try:
            results.update(zip(rows, compute(rows), strict=True))
        except HeedError as error:
            raise LineError(first_line + rows[0], f": {error}") from error
        on_batch(len(rows))
    return [results[row] for row in range(len(lengths))]


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return token ids padded on the right to the longest row, and the mask: True for tokens, False for padding."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return ids.to(device), mask.to(device)
