"""The plan of an epoch: steps, micro-batches, shards, order and padding."""

import tracemalloc
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.steps.steps import Planner, shard
from tests.data.texts import Lengths, epoch_order, numbered_steps, plan_steps


@st.composite
def lengths(draw: st.DrawFn) -> tuple[Lengths, Lengths]:
    pairs = draw(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=300))
    src, tgt = zip(*pairs, strict=True)
    return np.array(src), np.array(tgt)


planners = st.builds(
    Planner,
    batch_tokens=st.integers(1, 500),
    device_tokens=st.integers(80, 1000),  # the longest pair has 80 tokens
    pool=st.integers(1, 400),
    seed=st.integers(0, 2**31),
)


@settings(max_examples=150, deadline=None)
@given(lengths(), planners, st.integers(0, 5))
def test_every_sentence_is_in_one_step_and_micro_batches_fit(
    corpus: tuple[Lengths, Lengths], planner: Planner, epoch: int
) -> None:
    src, tgt = corpus
    steps = list(plan_steps(planner, src, tgt, epoch=epoch))
    rows = np.concatenate([rows for step in steps for rows in step])
    assert sorted(rows.tolist()) == list(range(len(src)))
    for step in steps:
        assert all(len(rows) for rows in step)
        assert all(planner.padded_tokens(src[rows], tgt[rows]) <= planner.device_tokens for rows in step)


@settings(max_examples=80, deadline=None)
@given(lengths(), planners)
def test_steps_have_about_batch_tokens(corpus: tuple[Lengths, Lengths], planner: Planner) -> None:
    src, tgt = corpus
    sizes = [tgt[np.concatenate(step)].sum() for step in plan_steps(planner, src, tgt, epoch=0)]
    # Steps are cut at whole sentences, and those of the last pool divide what is left of the epoch.
    assert sum(sizes) == tgt.sum()
    assert max(sizes) <= 1.5 * planner.batch_tokens + tgt.max()
    assert min(sizes) >= min(0.75 * planner.batch_tokens - 2 * tgt.max(), tgt.sum())


@pytest.mark.parametrize("size", range(2000, 2030, 3))
@pytest.mark.parametrize("pool", [20, 100])
def test_no_step_is_small(size: int, pool: int) -> None:
    """For any number of sentences in the last pool, and also if a pool is smaller than a step."""
    tgt = np.full(size, 10)
    planner = Planner(batch_tokens=300, device_tokens=1000, pool=pool, seed=1)
    sizes = [tgt[np.concatenate(step)].sum() for step in plan_steps(planner, tgt, tgt, epoch=0)]
    assert min(sizes) >= 0.75 * 300 - 10
    assert max(sizes) <= 1.5 * 300 + 10
    assert sizes.count(300) >= len(sizes) - 5, "only steps of the last pool deviate"


@settings(max_examples=50, deadline=None)
@given(lengths(), planners, st.integers(0, 3))
def test_a_plan_can_be_resumed_at_any_step(corpus: tuple[Lengths, Lengths], planner: Planner, epoch: int) -> None:
    def plan(start: int) -> list[tuple[int, list[list[int]]]]:
        steps = numbered_steps(planner, *corpus, epoch=epoch, start=start)
        return [(number, [rows.tolist() for rows in step]) for number, step in steps]

    whole = plan(0)
    last = whole[-1][0]
    for start in {0, 1, last // 2, last, last + 1}:
        assert plan(start) == [(number, step) for number, step in whole if number >= start]


@given(lengths(), planners, st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_shards_partition_a_step(corpus: tuple[Lengths, Lengths], planner: Planner, world_size: int) -> None:
    step = next(plan_steps(planner, *corpus, epoch=0))
    shards = [shard(step, rank, world_size) for rank in range(world_size)]
    assert sorted(number for part in shards for number, _ in part) == list(range(len(step)))
    assert all(rows is step[number] for part in shards for number, rows in part)
    sizes = [len(part) for part in shards]
    assert max(sizes) - min(sizes) <= 1


def test_epochs_and_seeds_differ() -> None:
    src = tgt = np.random.default_rng(0).integers(1, 30, 1000)

    def first(seed: int, epoch: int) -> list[int]:
        planner = Planner(batch_tokens=100, device_tokens=1000, pool=500, seed=seed)
        return next(plan_steps(planner, src, tgt, epoch=epoch))[0].tolist()

    orders = [first(seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert first(1, 0) == orders[0]


def log_normal_lengths(size: int) -> tuple[Lengths, Lengths]:
    """Draw lengths like those of real text: log-normal, with targets about as long as sources."""
    rng = np.random.default_rng(0)
    src = np.clip(rng.lognormal(2.6, 0.5, size), 2, 120)
    return src.astype(np.int64), np.clip(src * rng.normal(1.05, 0.2, size), 2, 150).astype(np.int64)


def padding_fraction(planner: Planner, src: Lengths, tgt: Lengths) -> float:
    batches = [rows for step in plan_steps(planner, src, tgt, epoch=0) for rows in step]
    return 1 - int(src.sum() + tgt.sum()) / sum(planner.padded_tokens(src[rows], tgt[rows]) for rows in batches)


def test_a_larger_pool_needs_less_padding() -> None:
    src, tgt = log_normal_lengths(20_000)
    # Sorting by target, then source, would give 0.065.
    assert padding_fraction(Planner(batch_tokens=1500, device_tokens=4096, pool=20_000, seed=1), src, tgt) < 0.05
    assert padding_fraction(Planner(batch_tokens=1500, device_tokens=4096, pool=100, seed=1), src, tgt) > 0.3


def test_devices_have_equal_work() -> None:
    """The busiest of four devices, for which the others wait, has little more work than the average."""
    src, tgt = log_normal_lengths(20_000)
    planner = Planner(batch_tokens=12_000, device_tokens=2048, pool=20_000, seed=1)
    busiest = average = 0.0
    for step in plan_steps(planner, src, tgt, epoch=0):
        work = [
            sum(planner.padded_tokens(src[rows], tgt[rows]) for _, rows in shard(step, rank, 4)) for rank in range(4)
        ]
        busiest, average = busiest + max(work), average + sum(work) / 4
    assert busiest / average < 1.04  # 1.13 if the number of micro-batches were not a multiple of four


def test_lengths_do_not_drift_within_a_pool() -> None:
    """The mean lengths of consecutive steps are uncorrelated."""
    src, tgt = log_normal_lengths(20_000)
    planner = Planner(batch_tokens=1500, device_tokens=4096, pool=20_000, seed=1)
    means = np.array([np.mean(tgt[step[0]]) for step in plan_steps(planner, src, tgt, epoch=0)])
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 4 / len(means) ** 0.5


def test_the_memory_of_planning_does_not_grow_with_the_corpus() -> None:
    planner = Planner(batch_tokens=25_000, device_tokens=8192, pool=20_000, seed=1)

    def peak(pairs: int) -> int:
        order = epoch_order(*log_normal_lengths(pairs), seed=1, epoch=0)
        tracemalloc.start()
        try:
            for pool in planner.pools(order):
                planner.cut(pool, order.read(pool.first, pool.stop))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(600_000) < 1.1 * peak(100_000)


def test_pools_are_drawn_from_the_whole_corpus() -> None:
    tgt = np.full(10_000, 10)
    planner = Planner(batch_tokens=500, device_tokens=1000, pool=100, seed=1)
    for step in islice(plan_steps(planner, tgt, tgt, epoch=0), 5):
        tenths = np.concatenate(step) // 1000
        assert len(set(tenths)) > 7  # 50 uniformly drawn sentences are nearly always from all ten tenths


@pytest.mark.parametrize("device_tokens", [53, 110, 111])
def test_a_pair_that_is_longer_than_what_was_measured_is_a_micro_batch(device_tokens: int) -> None:
    planner = Planner(batch_tokens=1000, device_tokens="auto", pool=5, seed=1)
    planner.device_tokens = device_tokens
    src, tgt = np.array([3, 50, 51, 4, 50]), np.array([3, 60, 60, 4, 4])
    (step,) = plan_steps(planner, src, tgt, epoch=0)
    assert sorted(np.concatenate(step).tolist()) == [0, 1, 2, 3, 4]
    sizes = [(len(rows), planner.padded_tokens(src[rows], tgt[rows])) for rows in step]
    assert all(rows == 1 or size <= device_tokens for rows, size in sizes)
    assert (1, 111) in sizes


def test_a_step_has_at_least_one_sentence() -> None:
    tgt = np.array([7, 9, 8, 30])
    steps = plan_steps(Planner(batch_tokens=1, device_tokens=100, pool=2, seed=1), tgt, tgt, epoch=0)
    assert sorted(tgt[np.concatenate(step)].sum() for step in steps) == sorted(tgt)
