"""Length batches and padding."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from heed.inference.batching import length_batches, pad
from heed.symbols import PAD


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 100))
def test_length_batches_hold_every_index_once_within_the_budget(lengths: list[int], batch_tokens: int) -> None:
    batches = list(length_batches(lengths, batch_tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = lengths[batch[0]]
        assert longest == max(lengths[index] for index in batch)
        assert len(batch) * longest <= batch_tokens or len(batch) == 1


def test_pad_masks_the_padding() -> None:
    ids, mask = pad([[5], [6, 7, 8]], torch.device("cpu"))
    assert ids.tolist() == [[5, PAD, PAD], [6, 7, 8]]
    assert mask.tolist() == [[True, False, False], [True, True, True]]
