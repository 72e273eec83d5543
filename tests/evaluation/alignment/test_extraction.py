"""The selection of an attention map as alignment: layers, heads, rows."""

import numpy as np
import pytest

from heed.evaluation.alignment import Extraction, best_extraction, candidate_maps

SRC_PIECES, TGT_PIECES = ["▁a", "▁b", "▁c", "</s>"], ["▁x", "▁y", "z", "</s>"]
SRC_WORDS, TGT_WORDS = ["a", "b", "c"], ["x", "yz"]


def test_candidate_maps_are_those_of_output_and_input_rows() -> None:
    # The states that predict x, y, z attend to a, b, b; the states that read them attend to b, b, c.
    cross = np.eye(4)[[0, 1, 1, 2]][None, None].repeat(3, axis=0).repeat(2, axis=1)
    cross[2, 1] = np.eye(4)[[2, 2, 2, 3]]
    maps = candidate_maps(cross, SRC_PIECES, TGT_PIECES, SRC_WORDS, TGT_WORDS)
    assert maps.shape == (2, 3, 3, 2, 3)
    for extraction, expected in (
        (Extraction(layer=1, head=2, row="output"), [[1, 0, 0], [0, 1, 0]]),
        (Extraction(layer=1, head=2, row="input"), [[0, 1, 0], [0, 0.5, 0.5]]),
        (Extraction(layer=3, head=None, row="output"), [[0.5, 0, 0.5], [0, 0.5, 0.5]]),
    ):
        assert maps[extraction.index].tolist() == expected, extraction


def test_a_single_head_gets_no_mean() -> None:
    cross = np.eye(4)[None, None].repeat(3, axis=0)
    assert candidate_maps(cross, SRC_PIECES, TGT_PIECES, SRC_WORDS, TGT_WORDS).shape == (2, 3, 1, 2, 3)


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 3, 5)])
def test_best_extraction_finds_the_lowest_error_rate(shape: tuple[int, int, int]) -> None:
    for index in np.ndindex(shape):
        rates = np.ones(shape)
        rates[index] = 0.5
        assert rates[best_extraction(rates).index] == 0.5
