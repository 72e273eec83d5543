"""Writing files."""

import os
from pathlib import Path

from heed.files import replacing


def test_pipes_and_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replacing(pipe, into_devices=True) as path:
        assert path == pipe
    assert pipe.is_fifo()
