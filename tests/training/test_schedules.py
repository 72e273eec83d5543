"""Learning-rate schedules at known points."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import lightning as L
import pytest
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.trainer.states import RunningStage

from heed.data.datamodule import TranslationData
from heed.errors import HeedError
from heed.training.schedules import Constant, Cosine, CosineInTime, InverseSquareRoot, until_end


@pytest.mark.parametrize(
    "schedule",
    [
        Constant(warmup_steps=10),
        InverseSquareRoot(warmup_steps=10),
        Cosine(warmup_steps=10, total_steps=100, floor=0.1),
    ],
)
def test_warm_up_is_linear_and_nothing_exceeds_the_peak(schedule: Callable[[int], float]) -> None:
    assert [schedule(step) for step in range(10)] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert max(schedule(step) for step in range(300)) == 1


def test_inverse_square_root_is_a_quarter_at_sixteen_times_the_warm_up() -> None:
    assert InverseSquareRoot(warmup_steps=7)(16 * 7 - 1) == pytest.approx(1 / 4)


def test_cosine_is_halfway_in_the_middle_and_then_stays_at_its_floor() -> None:
    schedule = Cosine(warmup_steps=10, total_steps=110, floor=0.2)
    assert schedule(60) == pytest.approx(0.6)
    assert schedule(110) == schedule(500) == pytest.approx(0.2)


def test_cosine_needs_more_steps_than_its_warm_up() -> None:
    with pytest.raises(HeedError, match=r"schedule\.total_steps=10 must be greater"):
        Cosine(warmup_steps=10, total_steps=10, floor=0.0)


@pytest.mark.parametrize(
    ("total_steps", "max_steps", "expected"),
    [(None, 110, 110), (50, 110, 50), (None, 5, 11)],  # 11: all warm-up
)
def test_cosine_ends_with_the_training(total_steps: int | None, max_steps: int, expected: int) -> None:
    schedule = Cosine(warmup_steps=10, total_steps=total_steps, floor=0.0)
    trainer = L.Trainer(accelerator="cpu", barebones=True, max_steps=max_steps)
    assert until_end(schedule, trainer, Mock(spec=TranslationData)) == replace(schedule, total_steps=expected)


def test_cosine_in_time_falls_with_the_time_and_warms_up_by_steps() -> None:
    timer, cosine = Timer(timedelta(seconds=100)), Cosine(warmup_steps=10, total_steps=None, floor=0.2)
    trainer = L.Trainer(accelerator="cpu", barebones=True)
    schedule = CosineInTime(cosine=cosine, timer=timer, strategy=trainer.strategy)
    points = [(0, 0, 0.1), (0, 9, 1), (50, 4, 0.5 * 0.6), (50, 99, 0.6), (100, 99, 0.2), (130, 99, 0.2)]
    for seconds, step, factor in points:
        timer.load_state_dict({"time_elapsed": {RunningStage.TRAINING: seconds}})
        assert schedule(step) == pytest.approx(factor)
