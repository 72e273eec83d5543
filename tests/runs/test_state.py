"""The state of a run, from the files in its folder and its lock."""

from pathlib import Path

import pytest

from heed.runs.claim import LOCK, find_state, is_locked, locked
from heed.runs.folder import RunFolder, write_failure


def test_states(tmp_path: Path) -> None:
    assert find_state(tmp_path) == ("interrupted", "")
    with locked(tmp_path):
        assert find_state(tmp_path) == ("running", "")
        assert find_state(tmp_path, is_running=False) == ("interrupted", "")
    assert find_state(tmp_path, is_running=True) == ("running", "")
    write_failure(tmp_path, "Training diverged.", ValueError("x"))
    assert find_state(tmp_path) == ("failed", "Training diverged.")
    assert "ValueError: x" in (tmp_path / "failure.txt").read_text()
    (tmp_path / "pruned.txt").touch()
    assert find_state(tmp_path) == ("pruned", "")
    (tmp_path / "results.json").touch()
    assert find_state(tmp_path, is_running=True) == ("finished", "")


def test_a_run_that_goes_on_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_failure(tmp_path, "The disk is full.", OSError())
    run = RunFolder(tmp_path, {"resume": False, "ckpt_path": None})
    monkeypatch.setenv("LOCAL_RANK", "1")
    run.open()
    assert find_state(tmp_path)[0] == "failed"
    monkeypatch.delenv("LOCAL_RANK")
    run.open()
    assert find_state(tmp_path)[0] == "interrupted"


def test_looking_at_a_lock_neither_creates_nor_keeps_it(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    assert not (tmp_path / LOCK).exists()
    with locked(tmp_path):
        assert is_locked(tmp_path)
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_a_folder_that_cannot_be_locked_is_not_in_use(
    error: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LOCK).touch()

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert not is_locked(tmp_path)
