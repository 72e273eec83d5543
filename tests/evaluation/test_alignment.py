"""Alignments: links of maps and files, symmetrization as Moses has it, error rates, and the choice of a head."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.errors import HeedError
from heed.evaluation.alignment import (
    SYMMETRIZATIONS,
    Extraction,
    Gold,
    aer,
    align,
    align_each_source,
    align_each_target,
    annotated_gold,
    best_extraction,
    candidate_maps,
    format_pharaoh,
    grow_diag_final_and,
    link_pieces,
    match_counts,
    parse_pharaoh,
    precision,
    recall,
    to_gold,
)
from heed.evaluation.significance import bootstrap_interval

Links = set[tuple[int, int]]


def to_array(links: Links, shape: tuple[int, int]) -> np.ndarray:
    """An alignment "T S" with these links (source, target)."""
    array = np.zeros(shape, dtype=bool)
    for src, tgt in links:
        array[tgt, src] = True
    return array


def draw_points(seed: int, shape: tuple[int, int]) -> Links:
    """Points of a grid, of a random density; drawing them from a seed is faster than by hypothesis."""
    rng = np.random.default_rng(seed)
    return {(int(i), int(j)) for i, j in np.argwhere(rng.random(shape) < rng.random())}


def test_each_word_is_linked_to_the_largest_weight() -> None:
    weights = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.0], [0.0, 0.0, 0.0], [0.1, 0.1, 0.8]])
    assert to_gold(align_each_target(weights)).sure == {(0, 0), (0, 1), (2, 3)}
    assert to_gold(align_each_source(weights)).sure == {(0, 0), (1, 1), (2, 3)}
    assert format_pharaoh(to_gold(align(weights, "intersection"))) == "0-0 2-3"
    assert format_pharaoh(to_gold(align(weights, "union"))) == "0-0 0-1 1-1 2-3"


def test_empty_sentences_have_empty_alignments() -> None:
    assert align(np.zeros((0, 3)), "grow-diag-final-and").shape == (0, 3)
    assert align(np.zeros((3, 0)), "target").shape == (3, 0)


def test_grow_diag_final_and_by_hand() -> None:
    # Links are (source, target). The intersection is 0-0. 1-0 and 1-1 are its neighbours. 4-3 is no neighbour, but both
    # of its words are unlinked. Target word 1 of 3-1 is linked already.
    forward = to_array({(0, 0), (1, 1), (3, 1), (4, 3)}, (4, 5))
    backward = to_array({(0, 0), (1, 0), (2, 3)}, (4, 5))
    assert to_gold(grow_diag_final_and(forward, backward)).sure == {(0, 0), (1, 0), (1, 1), (4, 3)}


def moses(forward: Links, backward: Links, shape: tuple[int, int]) -> Links:
    """The pseudo-code of the Moses manual, over sets of (target, source)."""
    found, union = forward & backward, forward | backward
    while True:
        before = len(found)
        for t in range(shape[0]):
            for s in range(shape[1]):
                if (t, s) in found:
                    for dt, ds in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                        new = (t + dt, s + ds)
                        unlinked = all(new[0] != u for u, _ in found) or all(new[1] != r for _, r in found)
                        if unlinked and new in union:
                            found = found | {new}
        if len(found) == before:
            break
    for direction in (forward, backward):
        for t, s in sorted(direction):
            if all(t != u for u, _ in found) and all(s != r for _, r in found):
                found = found | {(t, s)}
    return found


POINTS = st.integers(0, 2**32 - 1).map(partial(draw_points, shape=(5, 6)))


@settings(max_examples=60, deadline=None)
@given(forward=POINTS, backward=POINTS)
def test_grow_diag_final_and_equals_the_pseudo_code_of_moses(forward: Any, backward: Any) -> None:
    arrays = [np.zeros((2, 5, 6), dtype=bool) for _ in range(2)]
    for array, points in zip(arrays, (forward, backward), strict=True):
        for point in points:
            array[1][point] = True
    grown = SYMMETRIZATIONS["grow-diag-final-and"](*arrays)
    assert not grown[0].any()
    assert {(int(t), int(s)) for t, s in np.argwhere(grown[1])} == moses(forward, backward, (5, 6))
    assert (SYMMETRIZATIONS["intersection"](*arrays) <= grown).all()
    assert (grown <= SYMMETRIZATIONS["union"](*arrays)).all()


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


SETS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(SETS, SETS), max_size=4))
def test_written_links_are_read_back(pairs: list[tuple[Any, Any]]) -> None:
    golds = [Gold(frozenset(sure), frozenset(sure | possible)) for sure, possible in pairs]
    lines = [format_pharaoh(gold) for gold in golds]
    assert parse_pharaoh(lines, [(10, 10)] * len(golds), name="x", first_index=0, drop_outside=False) == golds


def test_links_may_be_possible_and_counted_from_1() -> None:
    lines, lengths = ["1-1 2p2 3?1 2-2", ""], [(3, 2), (1, 1)]
    first, second = parse_pharaoh(lines, lengths, name="x", first_index=1, drop_outside=False)
    assert first == Gold(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(0, 0), (1, 1), (2, 0)}))
    assert second == Gold(frozenset(), frozenset())
    one = frozenset({(0, 0)})
    assert parse_pharaoh(["0-0 12-16"], [(3, 2)], name="x", first_index=0, drop_outside=True) == [Gold(one, one)]


@pytest.mark.parametrize(
    ("lines", "first_index", "message"),
    [
        (
            ["0-0", "0-0 4-1"],
            0,
            "Line 2 of g.talp: 4-1 is out of range. The source has 3 words and the target 2, counted",
        ),
        (["0-0", "2-2"], 0, "Line 2 of g.talp: 2-2 is out of range"),
        (["1-0", ""], 1, "Line 1 of g.talp: 1-0 is out of range. .* counted from 1"),
        (["0-0", "0-"], 0, "Line 2 of g.talp: '0-' is not a link"),
        (["0:0", ""], 0, "Line 1 of g.talp: '0:0' is not a link"),
        (["0-0"], 0, "g.talp has 1 lines for 2 sentence pairs"),
    ],
)
def test_malformed_lines_are_named(lines: list[str], first_index: int, message: str) -> None:
    with pytest.raises(HeedError, match=message):
        parse_pharaoh(lines, [(4, 4), (3, 2)], name="g.talp", first_index=first_index, drop_outside=False)


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
