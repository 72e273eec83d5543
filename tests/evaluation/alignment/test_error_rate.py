"""Alignment error rate: known answers, the definitions over sets, and its bootstrap interval."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.evaluation.alignment import (
    Gold,
    aer,
    align_each_target,
    annotated_gold,
    link_pieces,
    match_counts,
    precision,
    recall,
    to_gold,
)
from heed.evaluation.significance import bootstrap_interval
from tests.evaluation.alignment.links import Links, draw_points, to_array


def gold(sure: Links, possible: Links = frozenset()) -> Gold:  # type: ignore[assignment]
    return Gold(sure=frozenset(sure), possible=frozenset(sure | possible))


def test_a_perfect_alignment_has_no_error() -> None:
    weights = np.eye(5)[[2, 0, 1, 4, 3]]
    counts = match_counts(align_each_target(weights), to_gold(weights > 0))
    assert float(aer(counts)) == 0
    assert bootstrap_interval(np.stack([counts] * 3), aer) == (0, 0)


def test_pieces_of_linked_words_are_linked() -> None:
    src, tgt = np.array([[1, 0], [1, 0], [0, 1], [0, 0]]), np.array([[0.5, 0.5], [0, 1], [0, 0]])
    assert link_pieces(gold({(0, 1)}, {(1, 0)}), src, tgt).astype(int).tolist() == [
        [1, 1, 1, 0],  # a piece of both words
        [1, 1, 0, 0],
        [0, 0, 0, 0],
    ]
    assert annotated_gold('{"alignment": [[0, 1], [2, 0]]}') == gold({(0, 1), (2, 0)})


def test_rates_by_hand() -> None:
    # S = {0-0, 1-2, 2-1}, P = S + {3-2, 3-3}, A = {0-0, 1-2, 3-2, 2-0}: |A ∩ S| = 2, |A ∩ P| = 3, |A| = 4, |S| = 3.
    alignment = to_array({(0, 0), (1, 2), (3, 2), (2, 0)}, (4, 4))
    counts = match_counts(alignment, gold({(0, 0), (1, 2), (2, 1)}, {(3, 2), (3, 3)}))
    assert counts.tolist() == [2, 3, 4, 3]
    assert float(aer(counts)) == pytest.approx(1 - 5 / 7)
    assert float(precision(counts)) == pytest.approx(3 / 4)
    assert float(recall(counts)) == pytest.approx(2 / 3)
    # The rate of a corpus is computed from summed counts.
    other = match_counts(to_array({(0, 0)}, (1, 1)), gold({(0, 0)}))
    assert float(aer(counts + other)) == pytest.approx(1 - 7 / 9)


def test_rates_without_links() -> None:
    counts = match_counts(np.zeros((2, 3), dtype=bool), gold(set()))
    assert (float(aer(counts)), float(precision(counts)), float(recall(counts))) == (0, 1, 1)
    assert float(aer(match_counts(to_array({(0, 0)}, (1, 1)), gold(set())))) == 1


LINKS = st.integers(0, 2**32 - 1).map(partial(draw_points, shape=(5, 4)))


@settings(deadline=None)
@given(found=LINKS, sure=LINKS, possible=LINKS)
def test_match_counts_are_sizes_of_sets(found: Any, sure: Any, possible: Any) -> None:
    possible = possible | sure
    counts = match_counts(to_array(found, (4, 5)), gold(sure, possible))
    assert counts.tolist() == [len(found & sure), len(found & possible), len(found), len(sure)]


def test_interval_equals_the_normal_approximation() -> None:
    rng = np.random.default_rng(1)
    counts = np.stack([[hit, hit, 10, 10] for hit in rng.integers(4, 11, size=60)])
    low, high = bootstrap_interval(counts, aer, resamples=4000)
    rates = 1 - counts[:, 0] / 10
    # All sentences have the same weight, so the rate of the corpus is a mean of 60 numbers.
    half = 1.96 * rates.std() / math.sqrt(60)
    assert (low, high) == pytest.approx((rates.mean() - half, rates.mean() + half), abs=0.01)
