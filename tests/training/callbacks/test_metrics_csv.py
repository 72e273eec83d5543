"""Rows of ``metrics.csv``, and what remains of them when a run is resumed."""

from pathlib import Path

import pytest

from heed.training.callbacks.metrics import MetricsCSV

HEADER = "step,epoch,lr,loss,nll,grad_norm,valid_loss,valid_bleu,valid_chrf,valid_aer"


@pytest.fixture
def metrics(tmp_path: Path) -> MetricsCSV:
    metrics = MetricsCSV(tmp_path / "metrics.csv")
    metrics.start(after_step=0)
    metrics.append({"step": 2, "epoch": 0, "lr": 1 / 3, "loss": 2.5})
    metrics.append({"step": 4, "epoch": 1, "valid_loss": 1234567.0, "valid_bleu": 20.0})
    return metrics


def test_numbers_have_six_digits_and_unknown_ones_are_empty(metrics: MetricsCSV) -> None:
    rows = ["2,0,0.333333,2.5,,,,,,", "4,1,,,,,1.23457e+06,20,,"]
    assert metrics.path.read_text().splitlines() == [HEADER, *rows]


def test_a_further_metric_has_its_column(tmp_path: Path) -> None:
    metrics = MetricsCSV(tmp_path / "metrics.csv")
    metrics.start(after_step=0, metrics=["ter"])
    metrics.append({"step": 4, "epoch": 1, "valid_ter": -40.5})
    header, row = metrics.path.read_text().splitlines()
    assert header == HEADER.replace("valid_aer", "valid_ter,valid_aer")
    assert row == "4,1,,,,,,,,-40.5,"


def test_rows_after_the_checkpoint_are_removed(metrics: MetricsCSV) -> None:
    metrics.start(after_step=3)
    assert metrics.path.read_text().splitlines() == [HEADER, "2,0,0.333333,2.5,,,,,,"]


@pytest.mark.parametrize("truncated", ["6", "6,1,0.3", "6,1,0.3,2.5,,,,,,", "6,1\n", "6,1,,,,,,,,,,,,,\n", "\0\n"])
def test_truncated_rows_are_removed(metrics: MetricsCSV, truncated: str) -> None:
    complete = metrics.path.read_bytes()
    with metrics.path.open("a") as file:
        file.write(truncated)
    metrics.start(after_step=100)
    assert metrics.path.read_bytes() == complete
