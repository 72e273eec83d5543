"""Records by step: what is written, and what remains of it when a run is resumed."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from heed.runs.records import MAX_KEPT, CSVRecords, is_kept, keep_json_lines, read_csv, read_json_lines

HEADER = "step,lr,loss,valid_bleu"


@pytest.fixture
def metrics(tmp_path: Path) -> CSVRecords:
    metrics = CSVRecords(tmp_path / "metrics.csv", HEADER.split(","))
    metrics.start(after_step=0)
    metrics.append({"step": 2, "lr": 1 / 3, "loss": 2.5})
    metrics.append({"step": 4, "valid_bleu": 1234567.0})
    return metrics


def test_numbers_have_six_digits_and_unknown_ones_are_empty(metrics: CSVRecords) -> None:
    assert metrics.path.read_text().splitlines() == [HEADER, "2,0.333333,2.5,", "4,,,1.23457e+06"]


def test_rows_after_the_checkpoint_are_removed(metrics: CSVRecords) -> None:
    metrics.start(after_step=3)
    assert metrics.path.read_text().splitlines() == [HEADER, "2,0.333333,2.5,"]


def test_a_new_column_is_empty_in_the_rows_that_are_kept(metrics: CSVRecords) -> None:
    CSVRecords(metrics.path, [*metrics.fields, "valid_ter"]).start(after_step=3)
    assert metrics.path.read_text().splitlines() == [f"{HEADER},valid_ter", "2,0.333333,2.5,,"]


@pytest.mark.parametrize("truncated", ["6", "6,0.3", "6,0.3,2.5,", "6,1\n", "6,,,,,,,\n", "\0\n"])
def test_truncated_rows_are_removed(metrics: CSVRecords, truncated: str) -> None:
    complete = metrics.path.read_bytes()
    with metrics.path.open("a") as file:
        file.write(truncated)
    assert len(read_csv(metrics.path)) == 2
    metrics.start(after_step=100)
    assert metrics.path.read_bytes() == complete


def test_json_lines_after_the_checkpoint_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    keep_json_lines(file, lambda step: True)
    assert not file.exists()
    lines = [{"step": step, "text": "Bär \u2028 x"} for step in (2, 4, 4, 6)]
    keep_json_lines(file, lambda step: True, lines)
    keep_json_lines(file, lambda step: step <= 4)
    assert read_json_lines(file) == lines[:3]
    with file.open("a") as appended:
        appended.write(json.dumps(lines[3]))  # a kill truncated the end of the line
    assert read_json_lines(file) == lines[:3]
    assert read_json_lines(tmp_path / "none") == []


def kept_after(validations: int, every: int) -> list[int]:
    """The steps that are kept when each validation drops what is no longer kept."""
    kept: list[int] = []
    for now in range(every, (validations + 1) * every, every):
        kept = [*(step for step in kept if is_kept(step, now=now, every=every)), now]
    return kept


@pytest.mark.parametrize("validations", [1, MAX_KEPT, MAX_KEPT + 1, 5 * MAX_KEPT, 17 * MAX_KEPT + 3])
def test_a_bounded_number_of_validations_is_kept_evenly(validations: int) -> None:
    kept = kept_after(validations, 30)
    assert min(validations, MAX_KEPT // 2) <= len(kept) <= MAX_KEPT + 1
    assert kept[-1] == 30 * validations
    gaps = {later - earlier for earlier, later in pairwise(kept[:-1])}
    assert len(gaps) <= 1


def test_a_resumed_run_keeps_what_an_uninterrupted_one_keeps() -> None:
    kept = kept_after(130, 10)
    # Killed after validation 130, resumed from the checkpoint at step 1,000: later steps are dropped, then repeated.
    resumed = [step for step in kept if step <= 1000]
    for now in range(1010, 3010, 10):
        resumed = [*(step for step in resumed if is_kept(step, now=now, every=10)), now]
    assert resumed == kept_after(300, 10)
