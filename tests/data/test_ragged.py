"""Ragged arrays against lists of lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.data import ragged as module
from heed.data.ragged import Ragged, take

lists = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=12)


def as_lists(ragged: Ragged) -> list[list[int]]:
    return [sequence.tolist() for sequence in ragged]


@given(lists)
def test_ragged_is_a_list_of_lists(sequences: list[list[int]]) -> None:
    ragged = Ragged.of(sequences)
    assert len(ragged) == len(sequences)
    assert ragged.lengths.tolist() == [len(sequence) for sequence in sequences]
    assert as_lists(ragged) == sequences
    assert ragged.values.dtype == np.int32
    for outside in (len(sequences), -1):
        with pytest.raises(IndexError):
            ragged[outside]


@given(lists, lists, st.data(), st.sampled_from([1, 2, 5, 2**16]))
def test_take_and_concatenate(first: list[list[int]], second: list[list[int]], data: st.DataObject, block: int) -> None:
    both = Ragged.concatenate([Ragged.of(first), Ragged.of(second)])
    assert as_lists(both) == first + second
    rows = data.draw(st.lists(st.integers(0, len(both) - 1), max_size=10)) if len(both) else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        assert as_lists(take(both, np.array(rows, dtype=np.int64))) == [(first + second)[row] for row in rows]
