"""Signals to jobs of SLURM (the batch script of docs/training.md, and a scheduler played here) and of torchrun."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.launch.test_processes import free_port
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
TINY = ["data=synthetic", "data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn",
        "model.d_embedding=16", "model.d_model=16", "batching.batch_tokens=200", "batching.device_tokens=300",
        "trainer.max_epochs=null",
        "trainer.validate_every=100000", "trainer.precision=32-true", "callbacks.attention_maps=null",
        "trainer.log_every=1", "logger=none", "search=greedy", "weights=last"]  # fmt: skip

SRUN = """\
#!/bin/sh
# Starts two tasks on one machine and ends with the highest exit status, as srun does.
pids=""
for task in 0 1; do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" & pids="$pids $!"
done
echo $pids > {folder}/pids
highest=0
for pid in $pids; do
    wait $pid
    status=$?
    echo $status >> {folder}/statuses
    if [ $status -gt $highest ]; then highest=$status; fi
done
exit $highest
"""
SCONTROL = """\
#!/bin/sh
echo "$@" >> {folder}/scontrol
"""
HEED = """\
#!/bin/sh
# The run of the script with processes on the CPU instead of GPUs, on one machine.
shift
for word; do
    shift
    case $word in
        trainer=ddp) word=trainer=ddp_cpu ;;
        trainer.devices=*) word=trainer.devices=2 ;;
        trainer.num_nodes=*) word=trainer.num_nodes=1 ;;
    esac
    set -- "$@" "$word"
done
exec {python} {train} "$@" {options}
"""


def batch_script() -> str:
    """Return the batch script of docs/training.md."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```bash\n(#!/bin/bash\n#SBATCH .*?)^```$", page, re.DOTALL | re.MULTILINE)
    return script


def write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@contextmanager
def started_job(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start the batch script as a job of SLURM on one machine with two tasks. The job ends with the block."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    write_program(bin_folder / "srun", SRUN.format(folder=folder))
    write_program(bin_folder / "scontrol", SCONTROL.format(folder=folder))
    words = " ".join([*TINY, f"cache_dir={folder}/cache", *options])
    write_program(bin_folder / "heed", HEED.format(python=sys.executable, train=ROOT / "train.py", options=words))
    write_program(folder / "job.sh", batch_script())
    job = {"SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "heed", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2",
           "SLURM_NODELIST": "127.0.0.1", "SLURM_NODEID": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
           "PATH": f"{bin_folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}  # fmt: skip
    with subprocess.Popen(
        ["bash", folder / "job.sh"],
        cwd=folder,
        env={**os.environ, **job},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_steps(run: Path, steps: int) -> None:
    """Wait until the run has written the metrics of this many steps."""
    metrics = run / "metrics.csv"
    wait_for(lambda: metrics.exists() and len(metrics.read_text().splitlines()) > steps)


@pytest.mark.full
@pytest.mark.reliability
def test_the_batch_script_of_the_docs_requeues_its_job_and_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "wmt" / "17"
    with started_job(tmp_path, "trainer.max_steps=null") as job:
        wait_for_steps(folder, 3)
        # Only the second process gets the signal: all of them agree on what to do.
        os.kill(int((tmp_path / "pids").read_text().split()[1]), signal.SIGTERM)
        _, printed = job.communicate(timeout=60)
    assert "Traceback" not in printed
    assert job.returncode == 130, printed
    assert (tmp_path / "statuses").read_text().split() == ["130", "0"]
    assert (tmp_path / "scontrol").read_text() == "requeue 17\n"  # once: Lightning does not queue it again too
    (checkpoint,) = (folder / "checkpoints").iterdir()
    step = int(checkpoint.stem.removeprefix("last-"))

    with started_job(tmp_path, f"trainer.max_steps={step + 3}") as job:
        _, printed = job.communicate(timeout=100)
    assert job.returncode == 0, printed
    assert (tmp_path / "scontrol").read_text() == "requeue 17\n"
    assert [path.name for path in (tmp_path / "runs" / "wmt").iterdir()] == ["17"]
    rows = [line.split(",")[0] for line in (folder / "metrics.csv").read_text().splitlines()[1:]]
    assert sorted({int(row) for row in rows}) == list(range(1, step + 4))
    assert (folder / "results.json").exists()


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
