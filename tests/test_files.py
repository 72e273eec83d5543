"""Writing files."""

import os
import stat
import time
from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.files import is_device, remove_unfinished, replacing


def test_pipes_and_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replacing(pipe, into_devices=True) as path:
        assert path == pipe
    assert pipe.is_fifo()
    with pytest.raises(HeedError, match="pipe is a device or a pipe and cannot be replaced"), replacing(pipe):
        pass
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dev/null", True),
        ("/dev/stdout", True),
        ("/dev/fd/7", True),
        ("/dev/shm/file", False),
        ("/dev", False),
        ("file", False),
    ],
)
def test_devices_are_recognised(path: str, expected: bool) -> None:
    assert is_device(Path(path)) == expected


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a [1].txt"
    with replacing(path) as first:
        first.write_text("first")
        with replacing(path) as second:
            second.write_text("sec")
            assert first.read_text() == "first"
        assert path.read_text() == "sec"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]
    reference = tmp_path / "reference"
    reference.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(reference.stat().st_mode)


def test_files_of_killed_writers_are_removed_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "a [1].txt"
    others = [tmp_path / name for name in ("a [1].txt.partial", "a [1].txt.gz.partial", "b.0123abcd.partial")]
    killed, running = (tmp_path / f"{path.name}.0123abc{digit}.partial" for digit in "de")
    killed.mkdir()
    for file in (*others, running, killed / "file"):
        file.touch()
    for old in (killed, *others):
        os.utime(old, times=(0, time.time() - 25 * 60 * 60))
    with replacing(path) as partial:
        partial.touch()
    assert set(tmp_path.iterdir()) == {path, running, *others}
    remove_unfinished(tmp_path)
    assert set(tmp_path.iterdir()) == {path, *others[:2]}
