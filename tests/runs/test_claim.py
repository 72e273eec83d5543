"""Run folders are claimed exclusively, also by concurrent processes and after a crash or a clock change."""

import multiprocessing
import signal
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Timer

import pytest
from filelock import FileLock

from heed.errors import HeedError
from heed.runs.claim import LOCK, create, creation_order, locked

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
