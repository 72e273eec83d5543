"""Entropy of attention, against known answers."""

import numpy as np
import pytest

from heed.evaluation.entropy import normalized_entropy


def test_it_is_zero_for_one_key_and_one_for_equal_weights() -> None:
    rows = np.array([[1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0]])
    assert normalized_entropy(rows).tolist() == pytest.approx([0, 1, 0.5])


def test_a_causal_row_has_the_keys_up_to_its_position() -> None:
    rows = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]])
    found = normalized_entropy(np.stack([rows, rows]), causal=True)
    assert found.shape == (2, 3)
    assert np.isnan(found[:, 0]).all()  # a single key
    assert found[0, 1:].tolist() == pytest.approx([1, np.log(2) / np.log(3)])
