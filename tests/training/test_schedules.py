"""Known points of each schedule."""

import math

import pytest

from heed.errors import HeedError
from heed.training.schedules import Constant, Cosine, InverseSquareRoot


def test_all_warm_up_linearly_and_never_exceed_the_peak() -> None:
    for schedule in (
        Constant(warmup_steps=10),
        InverseSquareRoot(warmup_steps=10),
        Cosine(warmup_steps=10, total_steps=100, floor=0.1),
    ):
        assert [schedule(step) for step in range(10)] == pytest.approx([(step + 1) / 10 for step in range(10)])
        assert max(schedule(step) for step in range(300)) == 1


def test_inverse_square_root_quarters_the_rate_at_sixteen_times_the_warm_up() -> None:
    assert InverseSquareRoot(warmup_steps=7)(16 * 7 - 1) == pytest.approx(1 / 4)


def test_inverse_square_root_is_the_papers() -> None:
    """Vaswani et al. 2017, eq. 3, up to the constant that makes the peak 1."""
    warmup, schedule = 13, InverseSquareRoot(warmup_steps=13)
    for step in range(1, 200):
        paper = min(step**-0.5, step * warmup**-1.5)
        assert schedule(step - 1) == pytest.approx(paper * math.sqrt(warmup))


def test_cosine_is_halfway_in_the_middle_and_stays_at_its_floor() -> None:
    schedule = Cosine(warmup_steps=10, total_steps=110, floor=0.2)
    assert schedule(60) == pytest.approx(0.6)
    assert schedule(110) == schedule(500) == pytest.approx(0.2)


def test_cosine_needs_an_end() -> None:
    with pytest.raises(HeedError, match=r"trainer\.max_steps"):
        Cosine(warmup_steps=10, total_steps=10, floor=0.0)
