"""Signals under torchrun, which repeats SIGTERM to the processes it started."""

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
    """Start a run with two processes, which end with the block."""
    torchrun = [Path(sys.executable).parent / "torchrun", f"--master-port={free_port()}", "--nproc-per-node=2"]
    words = [*TINY, "trainer=ddp_cpu", f"cache_dir={folder}/cache", f"hydra.run.dir={folder}/run", *options]
    with subprocess.Popen(
        [*torchrun, ROOT / "train.py", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            # torchrun starts each of them in a session of its own.
            for number in (*workers(process), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes of the run that torchrun has started; none after its end."""
    file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = file.read_text().split() if file.exists() else []
    return [int(child) for child in children if "train.py" in Path(f"/proc/{child}/cmdline").read_text()]


@pytest.mark.full
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
        os.kill(workers(process)[1], signal.SIGTERM)  # one is enough
        _, printed = process.communicate(timeout=100)
    assert process.returncode == 1  # torchrun hides the status 130 of its processes
    assert "exitcode  : 130" in printed
    (checkpoint,) = (folder / "checkpoints").iterdir()
    assert int(checkpoint.stem.removeprefix("last-")) >= step + 1
