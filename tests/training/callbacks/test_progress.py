"""The lines about a run in a log file."""

import lightning as L
import pytest

from heed.training.callbacks.progress import TerminalProgress


def test_a_validation_is_reported_with_the_duration_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"loss": 2.5, "bleu": 1.25, "chrf": 20.0}
    TerminalProgress().print_validation(
        L.Trainer(accelerator="cpu", logger=False), scores, epoch=2, train_seconds=3723.0
    )
    assert capsys.readouterr().err == (
        "step      0  epoch 2  valid: loss 2.500  BLEU 1.25  chrF 20.00  after 1:02:03\n"
    )
