"""The plan of an epoch: every sentence once, within limits, the same for any number of devices."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.plan import Planner, Shuffle, cells, share
from heed.errors import HeedError

Lengths = npt.NDArray[np.int64]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[Lengths, Lengths]:
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
@given(corpora(), planners, st.integers(0, 5))
def test_every_sentence_once_and_within_limits(corpus: tuple[Lengths, Lengths], planner: Planner, epoch: int) -> None:
    src, tgt = corpus
    steps = list(planner.steps(src, tgt, epoch=epoch))
    rows = np.concatenate([rows for step in steps for rows in step.micro_batches])
    assert sorted(rows.tolist()) == list(range(len(src)))
    for step in steps:
        assert all(len(rows) for rows in step.micro_batches)
        assert all(cells(src[rows], tgt[rows]) <= planner.device_tokens for rows in step.micro_batches)
        assert step.tgt_tokens == sum(tgt[rows].sum() for rows in step.micro_batches)


@settings(max_examples=80, deadline=None)
@given(corpora(), planners)
def test_steps_have_about_the_size_asked_for(corpus: tuple[Lengths, Lengths], planner: Planner) -> None:
    src, tgt = corpus
    sizes = [step.tgt_tokens for step in planner.steps(src, tgt, epoch=0)]
    # Cut at whole sentences, a step misses its share by half a sentence at each end; what is left of an epoch is
    # spread over its last pool, whose steps may so be half as large again.
    assert max(sizes) <= 1.5 * planner.batch_tokens + tgt.max()
    assert sum(sizes) == tgt.sum()


@settings(max_examples=50, deadline=None)
@given(corpora(), planners, st.integers(0, 3))
def test_a_plan_can_be_taken_up_anywhere(corpus: tuple[Lengths, Lengths], planner: Planner, epoch: int) -> None:
    src, tgt = corpus
    whole = [[rows.tolist() for rows in step.micro_batches] for step in planner.steps(src, tgt, epoch=epoch)]
    for start in {0, 1, len(whole) // 2, len(whole)}:
        rest = planner.steps(src, tgt, epoch=epoch, start=start)
        assert [[rows.tolist() for rows in step.micro_batches] for step in rest] == whole[start:]


@given(corpora(), planners, st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_shares_partition_a_step(corpus: tuple[Lengths, Lengths], planner: Planner, world_size: int) -> None:
    step = next(planner.steps(*corpus, epoch=0))
    shares = [share(step, rank, world_size) for rank in range(world_size)]
    assert sorted(number for part in shares for number, _ in part) == list(range(len(step.micro_batches)))
    assert all(rows is step.micro_batches[number] for part in shares for number, rows in part)
    sizes = [len(part) for part in shares]
    assert max(sizes) - min(sizes) <= 1


def test_epochs_and_seeds_differ() -> None:
    src = tgt = np.random.default_rng(0).integers(1, 30, 1000)

    def first(seed: int, epoch: int) -> list[int]:
        planner = Planner(batch_tokens=100, device_tokens=1000, pool=500, seed=seed)
        return next(planner.steps(src, tgt, epoch=epoch)).micro_batches[0].tolist()

    orders = [first(seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert first(1, 0) == orders[0]


def test_sorting_within_a_pool_spares_padding() -> None:
    rng = np.random.default_rng(0)
    src = rng.integers(3, 40, 20_000)
    tgt = np.clip(src + rng.integers(-3, 4, len(src)), 1, None)

    def padding(pool: int) -> float:
        planner = Planner(batch_tokens=2000, device_tokens=4000, pool=pool, seed=1)
        batches = [rows for step in planner.steps(src, tgt, epoch=0) for rows in step.micro_batches]
        return 1 - (src.sum() + tgt.sum()) / sum(cells(src[rows], tgt[rows]) for rows in batches)

    assert padding(20_000) < 0.06
    assert padding(100) > 0.3


def test_a_pair_too_long_for_a_device_is_refused_by_number() -> None:
    src, tgt = np.array([3, 50, 4]), np.array([3, 60, 4])
    planner = Planner(batch_tokens=10, device_tokens=100, pool=10, seed=1)
    with pytest.raises(HeedError, match=r"pair 2 has 50 source and 60 target tokens.*device_tokens=100.*110 or more"):
        list(planner.steps(src, tgt, epoch=0))


@given(st.integers(1, 700), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_shuffle_is_a_permutation(size: int, seed: int) -> None:
    shuffle = Shuffle(size, key=np.random.default_rng(seed).integers(2**32, size=4, dtype=np.uint64))
    assert sorted(shuffle(np.arange(size)).tolist()) == list(range(size))


def test_shuffle_looks_uniform() -> None:
    """Where 0 lands, over many keys: χ² with 15 degrees of freedom stays below its 99.9 % quantile."""
    rng = np.random.default_rng(0)
    landed = [int(Shuffle(16, key=rng.integers(2**32, size=4, dtype=np.uint64))(np.array([0]))[0]) for _ in range(4000)]
    counts = np.bincount(landed, minlength=16)
    assert ((counts - 250) ** 2 / 250).sum() < 37.7
