"""Mixtures: every window has the exact proportion, and every position is a function of the position alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.order.order import FRAME, MixtureOrder
from heed.data.pairs.pairs import Pairs, TrainingPairs, id_lists
from heed.data.steps.steps import Planner
from heed.data.text.corpus import Text
from heed.languages import Direction
from tests.data.texts import stored_pairs


def mixture(sizes: list[int], weights: list[float], *, step_tokens: float) -> MixtureOrder:
    """Mix texts whose targets have one to three tokens; the id of a pair is its text and its row."""
    stores = []
    for number, size in enumerate(sizes):
        ids = [[1000 * (number + 1) + row] for row in range(size)]
        targets = [one * (1 + row % 3) for row, one in enumerate(ids)]
        stores.append(stored_pairs([(id_lists(ids), id_lists(targets))], chunk=2))
    texts = [Text([], Direction("en", "de"), f"c{number}", weight) for number, weight in enumerate(weights)]
    return MixtureOrder(TrainingPairs(stores), texts, seed=1, step_tokens=step_tokens)


def text_of(pairs: Pairs) -> list[int]:
    return [ids[0] // 1000 - 1 for ids in pairs.src.to_pylist()]


@pytest.mark.parametrize("weights", [[3, 1, 1], [1, 1], [0.7, 0.2, 0.1], [5, 3.3, 0.01], [1], [np.pi, np.e, 1, 2]])
def test_every_window_has_every_corpus_in_proportion(weights: list[float]) -> None:
    order = mixture([20] * len(weights), weights, step_tokens=40)
    shares = np.array(weights) / sum(weights)
    drawn = np.array([order.drawn(position) for position in range(0, 2 * FRAME, 7)])
    ahead = np.array([order.drawn(position + FRAME) for position in range(0, 2 * FRAME, 7)])
    assert np.abs(ahead - drawn - FRAME * shares).max() < 1
    # Shorter windows too: the texts are spread over the frame.
    assert np.abs(drawn - np.arange(0, 2 * FRAME, 7)[:, None] * shares).max() < 3
    counted = np.bincount(text_of(order.read(123, 4567)), minlength=len(weights))
    assert counted.tolist() == (order.drawn(4567) - order.drawn(123)).tolist()


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=3, max_size=3),
    weights=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    step_tokens=st.integers(2, 30),
)
def test_a_mixture_is_a_function_of_the_position(sizes: list[int], weights: list[int], step_tokens: int) -> None:
    order = mixture(sizes, [float(weight) for weight in weights], step_tokens=step_tokens)
    whole = order.read(0, 400)
    for first in (0, 1, 77, 200):
        part = order.read(first, first + 50)
        assert part.rows.tolist() == whole.rows[first : first + 50].tolist()
        assert part.tgt.to_pylist() == whole.tgt.to_pylist()[first : first + 50]
    assert order.pairs.text_of(whole.rows).tolist() == text_of(whole)
    tokens = np.append(0, np.cumsum(whole.tgt_lengths + 1))
    for position in range(0, 400, 13):
        assert order.tokens_before(position) == tokens[position]
        assert np.bincount(text_of(whole)[:position], minlength=3).tolist() == order.drawn(position).tolist()
    for count in range(0, int(tokens[300]), 17):
        assert order.position_of(count) == int(np.searchsorted(tokens, count))
    # Every corpus is repeated in full, in a new order.
    for number, size in enumerate(sizes):
        ids = [int(src[0]) for src in whole.src if int(src[0]) // 1000 == number + 1]
        epochs = [ids[start : start + size] for start in range(0, len(ids) - size + 1, size)]
        assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)


@pytest.mark.parametrize("start", [0, 1, 3, 10, 11, 25])
def test_a_plan_of_a_mixture_resumes_at_any_step(start: int) -> None:
    order = mixture([50, 20, 9], [3, 1, 1], step_tokens=40)
    planner = Planner(batch_tokens=40, device_tokens=1000, pool=60, seed=1)

    def steps(first: int) -> dict[int, list[int]]:
        found = {}
        for pool in planner.pools(order, start=first):
            pairs = order.read(pool.first, pool.stop)
            for number, step in enumerate(planner.cut(pool, pairs), pool.first_step):
                if number >= first:
                    found[number] = sorted(pairs.rows[np.concatenate(step)].tolist())
            if pool.first_step > 40:
                return {number: rows for number, rows in found.items() if number < 40}
        raise AssertionError

    whole = steps(0)
    assert list(whole) == list(range(40))
    assert steps(start) == {number: rows for number, rows in whole.items() if number >= start}
