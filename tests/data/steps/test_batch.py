"""Collation of sentence pairs into padded batches."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.pairs.pairs import Pairs, id_lists
from heed.data.steps.batch import collate
from heed.symbols import BOS, EOS, PAD

sentences = st.lists(st.integers(4, 50), max_size=9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=12), st.data())
def test_every_row_is_its_sentence_pair(pairs: list[tuple[list[int], list[int]]], data: st.DataObject) -> None:
    src, tgt = (id_lists(list(side)) for side in zip(*pairs, strict=True))
    index = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=15))
    batch = collate(np.array(index), Pairs(10 * np.arange(len(pairs)), src, tgt))
    assert batch.index.tolist() == [10 * number for number in index]
    for row, number in enumerate(index):
        source, target = pairs[number]
        src_length, tgt_length = len(source) + 1, len(target) + 1
        assert batch.src[row, :src_length].tolist() == [*source, EOS]
        assert batch.tgt_in[row, :tgt_length].tolist() == [BOS, *target]
        assert batch.tgt_out[row, :tgt_length].tolist() == [*target, EOS]
        for ids, length in ((batch.src, src_length), (batch.tgt_in, tgt_length), (batch.tgt_out, tgt_length)):
            assert (ids[row, length:] == PAD).all()
    assert torch.equal(batch.src_mask, batch.src != PAD)
    assert batch.tgt_tokens == sum(len(pairs[number][1]) + 1 for number in index)
    assert batch.src_lengths.tolist() == [len(pairs[number][0]) + 1 for number in index]
    (positions,) = batch.tgt_positions
    assert torch.equal(batch.tgt_out.flatten()[positions], batch.tgt_out[batch.tgt_out != PAD])
    assert batch.src_mask[:, -1].any(), "no wider than the longest source"
    assert (batch.tgt_out[:, -1] != PAD).any(), "no wider than the longest target"


def test_what_is_copied_to_a_device_is_small() -> None:
    ids = id_lists([[5, 6], [7]])
    batch = collate(np.arange(2), Pairs(np.arange(2), ids, ids), text_of=np.arange(2), texts=2)
    copied = batch.to("meta")
    tensors = (copied.src, copied.tgt_in, copied.tgt_out, *copied.tgt_positions)
    assert {(tensor.device.type, tensor.dtype) for tensor in tensors} == {("meta", torch.int32)}
    assert (copied.src_mask.device.type, copied.src_mask.dtype) == ("meta", torch.bool)
    # Only the host reads these.
    assert torch.equal(copied.index, torch.arange(2))
    assert torch.equal(copied.src_lengths, torch.tensor([3, 2]))
