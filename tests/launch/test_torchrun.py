"""Signals under torchrun, which repeats SIGTERM to the processes it started, and does not forward SIGUSR1."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.launch.test_processes import free_port
from tests.launch.test_slurm import ROOT, TINY, wait_for_steps

SLOW = ["trainer.max_steps=null", "data.train=400", "batching.batch_tokens=6000", "model.d_model=256"]
"""Steps of a second: they go on when torchrun repeats a signal."""


@contextmanager
def started(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run with two processes in a process group of its own, which ends with the block."""
    torchrun = [Path(sys.executable).parent / "torchrun", f"--master-port={free_port()}", "--nproc-per-node=2"]
    words = [*TINY, "trainer=ddp_cpu", f"cache_dir={folder}/cache", f"hydra.run.dir={folder}/run", *options]
    with subprocess.Popen(
        [*torchrun, ROOT / "train.py", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def workers(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children if "train.py" in Path(f"/proc/{child}/cmdline").read_text()]


@pytest.mark.slow
@pytest.mark.reliability
def test_signals_under_torchrun_save_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with started(tmp_path, *SLOW) as process:
        wait_for_steps(folder, 1)
        # SLURM sends it to all of them, and torchrun repeats it.
        for number in (*workers(process), process.pid):
            os.kill(number, signal.SIGTERM)
        _, printed = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "Saving after this step.\n" in printed
    (checkpoint,) = (folder / "checkpoints").iterdir()
    step = int(checkpoint.stem.removeprefix("last-"))

    with started(tmp_path, *SLOW, "resume=true") as process:
        wait_for_steps(folder, step + 1)
        os.kill(workers(process)[1], signal.SIGUSR1)  # one is enough
        _, printed = process.communicate(timeout=100)
    assert process.returncode == 1  # torchrun hides the status 75 of its processes
    assert "exitcode  : 75" in printed
    (checkpoint,) = (folder / "checkpoints").iterdir()
    assert int(checkpoint.stem.removeprefix("last-")) >= step + 1


@pytest.mark.slow
@pytest.mark.reliability
def test_torchrun_itself_dies_of_sigusr1(tmp_path: Path) -> None:
    """Hence the batch script of docs/training.md uses srun alone."""
    with started(tmp_path, "trainer.max_steps=null") as process:
        wait_for_steps(tmp_path / "run", 1)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=20) == -signal.SIGUSR1
