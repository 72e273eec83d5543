"""Which run resume=true continues."""

from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.runs.claim import create
from heed.runs.resume import newest_unfinished

NOW = "2026-11-23_12-00-00"


def test_the_eleventh_folder_of_a_second_is_newer_than_the_second_one(tmp_path: Path) -> None:
    folders = [create(tmp_path, NOW) for _ in range(11)]
    for folder in folders:
        (folder / "checkpoints").mkdir()
    assert newest_unfinished(tmp_path) == folders[-1]
    (folders[-1] / "results.json").touch()
    assert newest_unfinished(tmp_path) == folders[-2]


def test_without_an_unfinished_run_there_is_nothing_to_resume(tmp_path: Path) -> None:
    create(tmp_path, NOW)  # no checkpoint yet
    with pytest.raises(HeedError, match="no unfinished run"):
        newest_unfinished(tmp_path)
    with pytest.raises(HeedError, match="no unfinished run"):
        newest_unfinished(tmp_path / "nowhere")
