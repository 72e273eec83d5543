"""The lines before a run: advice for short training."""

from types import SimpleNamespace
from typing import Any

import pytest

from heed.launch.summary import short_training
from heed.training.schedules import Constant, InverseSquareRoot


@pytest.mark.parametrize(
    ("steps", "warmup", "validate_every", "named"),
    [
        (60, 400, 300, ["schedule.warmup_steps", "trainer.validate_every"]),
        (60, 400, 60, ["schedule.warmup_steps"]),
        (60, 59, 61, ["trainer.validate_every"]),
        (60, 59, 60, []),
        (None, 400, 300, []),
    ],
)
def test_advice_for_short_training(steps: int | None, warmup: int, validate_every: int, named: list[str]) -> None:
    trainer: Any = SimpleNamespace(val_check_interval=validate_every, max_steps=-1)
    for schedule in (InverseSquareRoot(warmup_steps=warmup), Constant(warmup_steps=warmup)):
        module: Any = SimpleNamespace(schedule=schedule)
        advice = short_training(steps, trainer, module)
        assert len(advice) == (1 if named else 0)
        for name in ("schedule.warmup_steps", "trainer.validate_every"):
            assert (name in "".join(advice)) == (name in named)


@pytest.mark.parametrize(("max_steps", "named"), [(60, "trainer.max_steps"), (-1, "trainer.max_epochs")])
def test_the_advice_names_the_option_that_ends_the_training(max_steps: int, named: str) -> None:
    trainer: Any = SimpleNamespace(val_check_interval=300, max_steps=max_steps)
    (advice,) = short_training(60, trainer, SimpleNamespace(schedule=None))
    assert f"train longer with more {named}" in advice
