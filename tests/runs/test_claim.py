"""Run folders are locked exclusively, also by concurrent processes and after a crash; the states of runs."""

import multiprocessing
import signal
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Timer

import pytest
from filelock import FileLock

from heed.errors import HeedError
from heed.runs.folder import LOCK, RunFolder, create, creation_order, find_state, is_locked, locked, write_failure

NOW = "2026-11-23_12-00-00"
FORK = multiprocessing.get_context("fork")


def _create_repeatedly(parent: Path, start: Barrier, times: int) -> None:
    for number in range(times):
        start.wait()
        folder = create(parent, NOW)
        (folder / f"{multiprocessing.current_process().name}-{number}").touch()


def test_two_processes_never_create_the_same_folder_in_fifty_tries(tmp_path: Path) -> None:
    start = FORK.Barrier(2)
    processes = [FORK.Process(target=_create_repeatedly, args=(tmp_path, start, 50)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    folders = list(tmp_path.iterdir())
    assert len(folders) == 100
    assert all(len(list(folder.iterdir())) == 1 for folder in folders)
    assert len({creation_order(folder) for folder in folders}) == 100


def test_folders_keep_their_order_when_the_clock_goes_back(tmp_path: Path) -> None:
    times = [NOW, NOW, "2026-11-23_11-59-59", "2025-01-01_00-00-00", "2026-11-23_12-00-01", NOW]
    folders = [create(tmp_path, time) for time in times]
    assert [folder.name[len("2026-11-23_") :] for folder in folders] == [
        "12-00-00", "12-00-00-2", "12-00-00-3", "12-00-00-4", "12-00-01", "12-00-01-2",
    ]  # fmt: skip
    assert sorted(tmp_path.iterdir(), key=creation_order) == folders


def _hold(folder: Path, held: Barrier) -> None:
    with locked(folder):
        held.wait()
        signal.pause()


def test_a_lock_keeps_others_out_until_its_process_dies(tmp_path: Path) -> None:
    held = FORK.Barrier(2)
    holder = FORK.Process(target=_hold, args=(tmp_path / "run", held))
    holder.start()
    held.wait()
    with pytest.raises(HeedError, match="in use by another training process"), locked(tmp_path / "run"):
        pass
    holder.kill()
    holder.join()
    assert (tmp_path / "run" / LOCK).exists()
    with locked(tmp_path / "run"):
        pass


def test_a_process_that_asks_whether_a_folder_is_locked_keeps_nobody_out(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / LOCK, thread_local=False).acquire().lock  # as `is_locked` does
    Timer(0.2, lock.release).start()
    with locked(tmp_path):
        pass


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
