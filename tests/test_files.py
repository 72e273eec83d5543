"""Writing files."""

import os
from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.files import is_device, replacing


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
