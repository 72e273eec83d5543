"""Training stops after a number of validations without an improvement."""

from types import SimpleNamespace
from unittest.mock import Mock

import lightning as L
import pytest

from heed.runs.checkpoints import Selection
from heed.training.callbacks.stopping import EarlyStopping


def stopping_validation(callback: EarlyStopping, scores: list[tuple[float, float]]) -> int:
    """Return the index of the validation, (BLEU, loss), after which training stops; their number if it does not."""
    checkpoints = SimpleNamespace(selection=Selection())
    trainer = Mock(spec=L.Trainer, checkpoint_callback=checkpoints, should_stop=False)
    module = Mock(spec=L.LightningModule)
    for number, (bleu, loss) in enumerate(scores):
        module.validation_scores = {"bleu": bleu, "chrf": 10.0, "loss": loss}
        callback.on_validation_end(trainer, module)
        if trainer.should_stop:
            return number
    return len(scores)


@pytest.mark.parametrize(
    ("patience", "scores", "last"),
    [
        (2, [(1.0, 5.0), (2.0, 5.0), (1.5, 5.0), (2.0, 5.0), (9.0, 5.0)], 3),
        (1, [(0.0, 9.0 - step) for step in range(6)], 6),  # the loss falls while BLEU stays at 0
        (1, [(2.0, 5.0), (1.5, 4.9), (1.2, 4.8), (1.9, 4.8)], 3),  # the loss falls while BLEU varies
        (1, [(2.0, 5.0), (2.5, 5.1), (2.6, 5.2), (2.6, 5.3)], 3),  # BLEU rises while the loss rises
        (None, [(1.0, 5.0)] * 9, 9),
    ],
)
def test_it_stops_after_patience_validations_without_an_improvement(
    patience: int | None, scores: list[tuple[float, float]], last: int
) -> None:
    assert stopping_validation(EarlyStopping(patience=patience), scores) == last


def test_a_resumed_run_continues_to_count() -> None:
    first, resumed = (EarlyStopping(patience=2) for _ in range(2))
    assert stopping_validation(first, [(2.0, 5.0), (1.0, 5.0)]) == 2
    resumed.load_state_dict(first.state_dict())
    assert stopping_validation(resumed, [(1.0, 5.0), (9.0, 5.0)]) == 0
    older = {name: value for name, value in first.state_dict().items() if name != "lowest_loss"}
    resumed.load_state_dict(older)
    assert stopping_validation(resumed, [(1.0, 5.0)] * 3) == 2, "an older checkpoint does not have the loss"


def test_a_run_that_was_killed_after_its_last_validation_does_not_go_on() -> None:
    first, resumed, patient = EarlyStopping(patience=1), EarlyStopping(patience=1), EarlyStopping(patience=2)
    assert stopping_validation(first, [(2.0, 5.0), (1.0, 5.0)]) == 1
    for callback, stops in ((resumed, True), (patient, False)):
        callback.load_state_dict(first.state_dict())
        trainer = Mock(spec=L.Trainer, should_stop=False)
        callback.on_train_start(trainer, Mock(spec=L.LightningModule))
        assert trainer.should_stop == stops
