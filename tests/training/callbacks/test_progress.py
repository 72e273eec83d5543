"""The lines about a run in a log file."""

from types import SimpleNamespace

import pytest

from heed.training.callbacks.progress import TerminalProgress


def test_a_validation_is_reported_with_the_duration_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"loss": 2.5, "bleu": 1.25, "chrf": 20.0}
    TerminalProgress().print_validation(SimpleNamespace(global_step=40), scores, epoch=2, train_seconds=3723)
    assert capsys.readouterr().err == (
        "step     40  epoch 2  valid: loss 2.500  BLEU 1.25  chrF 20.00  after 1:02:03\n"
    )
