"""A process whose partners end or hang says so in one sentence."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forkserver
from tests.launch.test_elastic import start
from tests.launch.test_processes import free_port
from tests.waiting import wait_for

EXCHANGE = """
import os, sys, time
from datetime import timedelta
from torch import distributed, ones
from heed.launch.errors import explain_error

mode, rank = sys.argv[1], int(sys.argv[2])
if mode == "absent" and rank == 1:
    sys.exit()
try:
    distributed.init_process_group("gloo", rank=rank, world_size=2, timeout=timedelta(seconds=2))
    distributed.all_reduce(ones(1))
    if rank == 1:
        time.sleep(5 if mode == "hangs" else 0)
        os._exit(0)
    distributed.all_reduce(ones(1))
except RuntimeError as error:
    print(explain_error(error, overrides=[]))
"""


@pytest.mark.reliability
@pytest.mark.parametrize(
    ("mode", "detail"),
    [
        ("hangs", "Timed out waiting 2000ms for recv operation to complete"),
        ("ends", r"Connection closed by peer \S+|Read error \S+ Connection reset by peer"),
        ("absent", r"Timed out after \d+ seconds waiting for clients. 1/2 clients joined"),
    ],
)
def test_a_failed_exchange_is_explained(mode: str, detail: str) -> None:
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    first, other = (
        forkserver.Popen(
            [sys.executable, "-c", EXCHANGE, mode, rank], env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        for rank in "01"
    )  # fmt: skip
    printed, _ = first.communicate(timeout=100)
    other.communicate(timeout=100)
    assert re.fullmatch(
        rf"An exchange with another process of this run failed \(.*({detail}).*\): see the output of "
        r"that process, then continue with resume=true\.\n",
        printed,
    ), printed


def find_second_process(process: subprocess.Popen[str]) -> int | None:
    """Return the process that Lightning's launcher has started, if any."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next((int(child) for child in children if "train.py" in Path(f"/proc/{child}/cmdline").read_text()), None)


@pytest.mark.reliability
def test_a_process_whose_parent_is_killed_before_their_group_exists_ends_with_a_message(tmp_path: Path) -> None:
    process = start(tmp_path, tmp_path / "run", 2)
    wait_for(lambda: find_second_process(process))
    process.kill()
    _, printed = process.communicate(timeout=60)  # until the second process has closed stderr too
    assert "train.py: The first process of this run has ended: see its output.\n" in printed


@pytest.mark.full
@pytest.mark.reliability
def test_a_run_whose_second_process_is_killed_ends_with_a_message(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, folder, 2)
    try:
        wait_for(lambda: list(folder.glob("checkpoints/last-*.ckpt")))
        second = find_second_process(process)
        assert second is not None
        os.kill(second, signal.SIGKILL)
        _, printed = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 2, printed
    assert "An exchange with another process of this run failed" in printed
    assert "Traceback" not in printed
