"""The lines about a run in a log file."""

from heed.training.callbacks.progress import validation_line


def test_a_validation_is_reported_with_the_duration_of_the_run() -> None:
    scores = {"loss": 2.5, "bleu": 1.25, "chrf": 20.0}
    assert validation_line(0, scores, epoch=2, train_seconds=3723.0) == (
        "step      0  epoch 2  valid: loss 2.500  BLEU 1.25  chrF 20.00  after 1:02:03"
    )
