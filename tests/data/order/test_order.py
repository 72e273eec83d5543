"""The order of an epoch: positions, tokens and pairs agree with a list of all pairs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.order.order import EpochOrder
from heed.data.pairs.pairs import Pairs, StoredPairs, TrainingPairs, chunk_size, flatten, id_lists, unflatten
from heed.data.text.source import mixed
from tests.data.texts import stored_pairs

Corpus = list[tuple[list[int], list[int]]]
sides = st.lists(st.integers(10, 99), max_size=5)
texts = st.lists(st.tuples(sides, sides), min_size=1, max_size=40)


def store(pairs: Corpus, *, chunk: int, shards: int) -> StoredPairs:
    """Return the pairs in about equal record batches."""
    parts = np.array_split(np.arange(len(pairs)), min(shards, len(pairs)))
    batches = [[id_lists([pairs[row][side] for row in part]) for side in (0, 1)] for part in parts]
    return stored_pairs(batches, chunk=chunk)


def content(pairs: Pairs) -> list[tuple[int, list[int], list[int]]]:
    return list(zip(pairs.rows.tolist(), pairs.src.to_pylist(), pairs.tgt.to_pylist(), strict=True))


shapes = {"chunk": st.integers(1, 7), "shards": st.integers(1, 4)}


@given(pairs=texts, **shapes, data=st.data())
def test_chunks_hold_the_pairs(pairs: Corpus, chunk: int, shards: int, data: st.DataObject) -> None:
    stored = TrainingPairs([store(pairs, chunk=chunk, shards=shards)])
    assert len(stored) == stored.chunk_starts[-1] == len(pairs)
    everything = content(stored.read(np.arange(len(pairs))))
    assert everything == [(row, src, tgt) for row, (src, tgt) in enumerate(pairs)]
    chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=6))
    assert content(stored.read(np.array(chosen, dtype=np.int64))) == [everything[row] for row in chosen]
    for number, rows in enumerate(np.split(np.arange(len(pairs)), stored.chunk_starts[1:-1])):
        assert 1 <= len(rows) <= chunk
        assert stored.chunk_tgt_tokens[number] == sum(len(pairs[row][1]) + 1 for row in rows)


@settings(max_examples=60, deadline=None)
@given(pairs=texts, **shapes, both=st.booleans(), epoch=st.integers(0, 2))
def test_an_epoch_has_every_pair_once(pairs: Corpus, chunk: int, shards: int, both: bool, epoch: int) -> None:
    stored = store(pairs, chunk=chunk, shards=shards)
    sides = [replace(stored, tags=(4,)), replace(stored, swapped=True, tags=(5, 6))] if both else [stored]
    training = TrainingPairs(sides)
    order = EpochOrder(training, seed=(1, epoch))
    total = len(pairs) * len(sides)
    assert order.length == len(training) == total
    expected = [(row, src, tgt) for row, (src, tgt) in enumerate(pairs)]
    if both:
        expected += [(len(pairs) + row, tgt, src) for row, (src, tgt) in enumerate(pairs)]
        tags = [[4]] * len(pairs) + [[5, 6]] * len(pairs)
        expected = [(row, [*tags[row], *src] if src else [], tgt) for row, src, tgt in expected]
    whole = order.read(0, total)
    assert sorted(content(whole)) == expected
    for first in range(0, total, 3):
        assert content(order.read(first, min(first + 5, total))) == content(whole)[first : first + 5]

    tokens = np.append(0, np.cumsum(whole.tgt_lengths + 1))
    assert [order.tokens_before(position) for position in range(total + 1)] == tokens.tolist()
    for count in range(int(tokens[-1]) + 1):
        assert order.position_of(count) == int(np.searchsorted(tokens, count))
    assert training.tgt_tokens == tokens[-1]
    uncounted = sum((1 + (row >= len(pairs))) * (not src) for row, src, _ in expected)  # tags of empty sources
    assert training.src_tokens == (whole.src_lengths + 1).sum() + uncounted * both


def test_epochs_and_seeds_have_different_orders() -> None:
    training = TrainingPairs([store([([n], [n]) for n in range(200)], chunk=3, shards=2)])
    orders = [EpochOrder(training, seed=seed).read(0, 200).rows.tolist() for seed in ((1, 0), (1, 1), (2, 0), (1, 0))]
    assert orders[0] == orders[3]
    assert len({tuple(order) for order in orders}) == 3


def test_the_pools_of_a_million_pairs_sorted_by_domain_are_mixed() -> None:
    """The mix of domains in a pool is that of a shuffled corpus, although pairs are drawn in chunks."""
    domains, pairs, pool = 10, 1_000_000, 20_000
    domain = np.repeat(np.arange(domains), pairs // domains)
    # As a preparation stores them: in the order of their digests.
    stored = domain[np.argsort(mixed(np.zeros(pairs, np.uint64), np.arange(1, pairs + 1)))].astype(np.int32)
    ids = unflatten(stored, np.ones(pairs, np.int64))
    order = EpochOrder(TrainingPairs([stored_pairs([(ids, ids)], chunk=chunk_size(pairs))]), seed=(1, 0))
    counts = np.array([np.bincount(flatten(order.read(first, first + pool).src)[0]) for first in range(0, pairs, pool)])
    expected = pool / domains
    # The number of pairs of a domain in a random pool has this variance (hypergeometric).
    variance = expected * (1 - 1 / domains) * (pairs - pool) / (pairs - 1)
    assert 0.8 < np.mean((counts - expected) ** 2) / variance < 1.2
    assert np.abs(counts - expected).max() < 5 * variance**0.5


@pytest.mark.parametrize("rows", [[], [3], [0, 1, 5, 5, 2]])
def test_pairs_are_taken_by_index(rows: list[int]) -> None:
    pairs = TrainingPairs([store([([n] * n, [n]) for n in range(6)], chunk=2, shards=1)]).read(np.arange(6))
    assert content(pairs.take(np.array(rows, dtype=np.int64))) == [(row, [row] * row, [row]) for row in rows]
