"""Alignments, their error rates and their files: known answers, and definitions written out as loops."""

import math
from pathlib import Path
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
    aer_interval,
    align,
    best_extraction,
    by_source,
    by_target,
    candidates,
    coverage,
    entropy,
    grow_diag_final_and,
    links,
    matches,
    monotonicity,
    parse_links,
    pharaoh,
    precision,
    recall,
    saved_extraction,
    usual_extraction,
)

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "alignment_deen"


def array(pairs: set[tuple[int, int]], shape: tuple[int, int]) -> np.ndarray:
    found = np.zeros(shape, dtype=bool)
    for src, tgt in pairs:
        found[tgt, src] = True
    return found


def gold(sure: set[tuple[int, int]], possible: set[tuple[int, int]] = frozenset()) -> Gold:  # type: ignore[assignment]
    return Gold(sure=frozenset(sure), possible=frozenset(sure | possible))


def points(rows: int, columns: int) -> st.SearchStrategy[set[tuple[int, int]]]:
    """Any set of places in a grid, sparse ones as likely as full ones: drawn from a seed, which is fast."""

    def draw(seed: int) -> set[tuple[int, int]]:
        rng = np.random.default_rng(seed)
        return {(int(i), int(j)) for i, j in np.argwhere(rng.random((rows, columns)) < rng.random())}

    return st.integers(0, 2**32 - 1).map(draw)


# ---- error rates


def test_a_perfect_aligner_has_no_error() -> None:
    weights = np.eye(5)[[2, 0, 1, 4, 3]]
    counts = matches(by_target(weights), links(weights > 0))
    assert float(aer(counts)) == 0
    assert aer_interval(np.stack([counts] * 3)) == (0, 0)


def test_a_case_worked_by_hand() -> None:
    # S = {0-0, 1-2, 2-1}, P = S + {3-2, 3-3}, A = {0-0, 1-2, 3-2, 2-0}: |A ∩ S| = 2, |A ∩ P| = 3, |A| = 4, |S| = 3.
    found = array({(0, 0), (1, 2), (3, 2), (2, 0)}, (4, 4))
    counts = matches(found, gold({(0, 0), (1, 2), (2, 1)}, {(3, 2), (3, 3)}))
    assert counts.tolist() == [2, 3, 4, 3]
    assert float(aer(counts)) == pytest.approx(1 - 5 / 7)
    assert float(precision(counts)) == pytest.approx(3 / 4)
    assert float(recall(counts)) == pytest.approx(2 / 3)
    # Of a corpus: counts are summed before the rate is taken.
    other = matches(array({(0, 0)}, (1, 1)), gold({(0, 0)}))
    assert float(aer(counts + other)) == pytest.approx(1 - 7 / 9)


def test_nothing_to_align() -> None:
    nothing = matches(np.zeros((2, 3), dtype=bool), gold(set()))
    assert (float(aer(nothing)), float(precision(nothing)), float(recall(nothing))) == (0, 1, 1)
    assert float(aer(matches(array({(0, 0)}, (1, 1)), gold(set())))) == 1


PAIRS = points(5, 4)


@settings(deadline=None)
@given(found=PAIRS, sure=PAIRS, possible=PAIRS)
def test_rates_are_those_of_sets(found: Any, sure: Any, possible: Any) -> None:
    possible = possible | sure
    counts = matches(array(found, (4, 5)), gold(sure, possible))
    assert counts.tolist() == [len(found & sure), len(found & possible), len(found), len(sure)]


def test_the_interval_is_that_of_resampled_sentences() -> None:
    rng = np.random.default_rng(1)
    counts = np.stack([[hit, hit, 10, 10] for hit in rng.integers(4, 11, size=60)])
    low, high = aer_interval(counts, resamples=4000)
    rates = 1 - counts[:, 0] / 10
    # All sentences weigh the same here, so the corpus rate is a mean of 60 numbers.
    spread = 1.96 * rates.std() / math.sqrt(60)
    assert (low, high) == pytest.approx((rates.mean() - spread, rates.mean() + spread), abs=0.01)


# ---- from maps to alignments


def test_the_largest_weight_of_each_word() -> None:
    weights = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.0], [0.0, 0.0, 0.0], [0.1, 0.1, 0.8]])
    assert links(by_target(weights)).sure == {(0, 0), (0, 1), (2, 3)}
    assert links(by_source(weights)).sure == {(0, 0), (1, 1), (2, 3)}
    assert pharaoh(links(align(weights, "intersection"))) == "0-0 2-3"
    assert pharaoh(links(align(weights, "union"))) == "0-0 0-1 1-1 2-3"
    assert align(np.zeros((0, 3)), "grow-diag-final-and").shape == (0, 3)
    assert align(np.zeros((3, 0)), "target").shape == (3, 0)


def test_growing_by_hand() -> None:
    # (source, target). Intersection: 0-0. 1-0 and 1-1 touch it; 4-3 touches nothing, but both its words are free;
    # 3-1 links word 3 to a word that has a link by then.
    forward = array({(0, 0), (1, 1), (3, 1), (4, 3)}, (4, 5))
    backward = array({(0, 0), (1, 0), (2, 3)}, (4, 5))
    assert links(grow_diag_final_and(forward, backward)).sure == {(0, 0), (1, 0), (1, 1), (4, 3)}


def moses(forward: set[tuple[int, int]], backward: set[tuple[int, int]], shape: tuple[int, int]) -> set[Any]:
    """The pseudo-code of the Moses manual, over sets of (target, source)."""
    found, union = forward & backward, forward | backward
    while True:
        before = len(found)
        for t in range(shape[0]):
            for s in range(shape[1]):
                if (t, s) in found:
                    for dt, ds in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                        new = (t + dt, s + ds)
                        free = all(new[0] != u for u, _ in found) or all(new[1] != r for _, r in found)
                        if free and new in union:
                            found = found | {new}
        if len(found) == before:
            break
    for direction in (forward, backward):
        for t, s in sorted(direction):
            if all(t != u for u, _ in found) and all(s != r for _, r in found):
                found = found | {(t, s)}
    return found


GRID = points(5, 6)


@settings(max_examples=60, deadline=None)
@given(forward=GRID, backward=GRID)
def test_growing_follows_moses(forward: Any, backward: Any) -> None:
    arrays = [np.zeros((2, 5, 6), dtype=bool) for _ in range(2)]
    for found, points in zip(arrays, (forward, backward), strict=True):
        for point in points:
            found[1][point] = True
    grown = grow_diag_final_and(*arrays)
    assert not grown[0].any()
    assert {(int(t), int(s)) for t, s in np.argwhere(grown[1])} == moses(forward, backward, (5, 6))
    assert (SYMMETRIZATIONS["intersection"](*arrays) <= grown).all()
    assert (grown <= SYMMETRIZATIONS["union"](*arrays)).all()


def test_either_row_can_be_read() -> None:
    src, tgt = ["▁a", "▁b", "▁c", "</s>"], ["▁x", "▁y", "z", "</s>"]
    # The state that writes x, y, z looks at a, b, b; the state that has read them looks at b, b, c.
    cross = np.eye(4)[[0, 1, 1, 2]][None, None].repeat(3, axis=0).repeat(2, axis=1)
    cross[2, 1] = np.eye(4)[[2, 2, 2, 3]]
    maps = candidates(cross, src, tgt, ["a", "b", "c"], ["x", "yz"])
    assert maps.shape == (2, 3, 3, 2, 3)
    output = Extraction(layer=1, head=2, row="output")
    assert maps[output.index].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert maps[Extraction(layer=1, head=2, row="input").index].tolist() == [[0, 1, 0], [0, 0.5, 0.5]]
    assert maps[Extraction(layer=3, head=None, row="output").index].tolist() == [[0.5, 0, 0.5], [0, 0.5, 0.5]]

    # One head is its own mean, and every extraction is found again where its error rate is lowest.
    assert candidates(cross[:, :1], src, tgt, ["a", "b", "c"], ["x", "yz"]).shape == (2, 3, 1, 2, 3)
    for shape in ((2, 3, 1), (2, 3, 5)):
        for index in np.ndindex(shape):
            rates = np.ones(shape)
            rates[index] = 0.5
            best = best_extraction(rates)
            assert np.ones(shape)[best.index] == 1
            assert rates[best.index] == 0.5
    assert usual_extraction(1).index == (0, 0, -1)
    assert usual_extraction(6).layer == 5


# ---- what maps look like

MAPS = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).dirichlet([0.3] * 5, size=(2, 3, 7)))


@settings(max_examples=20, deadline=None)
@given(maps=MAPS)
def test_measures_are_their_formulas(maps: np.ndarray) -> None:
    found = entropy(maps), coverage(maps), monotonicity(maps)
    for layer, head in np.ndindex(2, 3):
        rows = maps[layer, head]
        spread = np.mean([-sum(p * math.log(p) for p in row if p > 0) for row in rows])
        seen = np.mean([min(1, sum(rows[:, s])) for s in range(5)])
        centres = [round(sum(s * row[s] for s in range(5)), 9) for row in rows]
        signs = [np.sign(centres[u] - centres[t]) for t in range(7) for u in range(t + 1, 7)]
        expected = (spread, seen, np.mean(signs))
        np.testing.assert_allclose([measure[layer, head] for measure in found], expected, atol=1e-9)


def test_measures_of_clear_maps() -> None:
    straight, reverse = np.eye(6), np.eye(6)[::-1]
    uniform = np.full((6, 6), 1 / 6)
    stuck = np.zeros((6, 6))
    stuck[:, 2] = 1
    maps = np.stack((straight, reverse, uniform, stuck))
    np.testing.assert_allclose(entropy(maps), [0, 0, math.log(6), 0], atol=1e-12)
    np.testing.assert_allclose(coverage(maps), [1, 1, 1, 1 / 6])
    np.testing.assert_allclose(monotonicity(maps), [1, -1, 0, 0])
    # Half of each look went to EOS, and one word looked nowhere: the shape of the rest is what counts.
    faint = straight / 2
    faint[3] = 0
    assert (float(entropy(faint)), float(monotonicity(faint))) == (0, 1)
    assert float(monotonicity(straight[:1])) == 1


# ---- files


@settings(deadline=None)
@given(sets=st.lists(st.tuples(points(10, 10), points(10, 10)), max_size=4))
def test_what_is_written_is_read(sets: list[tuple[Any, Any]]) -> None:
    golds = [gold(sure, possible) for sure, possible in sets]
    lines = [pharaoh(one) for one in golds]
    lengths = [(10, 10)] * len(golds)
    assert parse_links(lines, lengths, name="x", first_index=0, drop_outside=False) == golds


def test_conventions() -> None:
    lines, lengths = ["1-1 2p2 3?1 2-2", ""], [(3, 2), (1, 1)]
    first, second = parse_links(lines, lengths, name="x", first_index=1, drop_outside=False)
    assert first == gold({(0, 0), (1, 1)}, {(2, 0)})
    assert second == gold(set())


@pytest.mark.parametrize(
    ("lines", "first_index", "sentence"),
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
def test_bad_files_are_named(lines: list[str], first_index: int, sentence: str) -> None:
    with pytest.raises(HeedError, match=sentence):
        parse_links(lines, [(4, 4), (3, 2)], name="g.talp", first_index=first_index, drop_outside=False)


def test_the_shared_gold() -> None:
    if not SHARED.is_dir():
        pytest.skip("no ../shared/data/alignment_deen here")
    src, tgt, talp = ((SHARED / name).read_text("utf-8").splitlines() for name in ("test.de", "test.en", "gold.talp"))
    lengths = [(len(s.split()), len(t.split())) for s, t in zip(src, tgt, strict=True)]
    with pytest.raises(HeedError, match=r"Line \d+ of gold.talp: 12-16 is out of range"):
        parse_links(talp, lengths, name="gold.talp", first_index=0, drop_outside=False)
    golds = parse_links(talp, lengths, name="gold.talp", first_index=0, drop_outside=True)
    assert sum(len(one.sure) for one in golds) == 1232
    diagonal = [matches(np.eye(t, s, dtype=bool), one) for (s, t), one in zip(lengths, golds, strict=True)]
    assert 0.5 < float(aer(np.sum(diagonal, axis=0))) < 0.8


def test_a_saved_extraction_must_fit_the_model() -> None:
    saved = {"layer": 2, "head": 3, "row": "input"}
    assert saved_extraction(saved, layers=2, heads=4) == Extraction(layer=2, head=3, row="input")
    assert saved_extraction(None, layers=2, heads=4) == usual_extraction(2)
    for layers, heads in ((1, 4), (2, 2)):
        with pytest.raises(HeedError, match="names layer 2, head 3"):
            saved_extraction(saved, layers=layers, heads=heads)
