"""Alignments of attention maps and their symmetrization: examples by hand, and the pseudo-code of Moses."""

from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.evaluation.alignment import (
    SYMMETRIZATIONS,
    align,
    align_each_source,
    align_each_target,
    format_pharaoh,
    grow_diag_final_and,
    to_gold,
)
from tests.evaluation.alignment.links import Links, draw_points, to_array


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
