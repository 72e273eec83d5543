"""Runs started or resumed at the same time, and by several launchers: each run has one folder."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from heed.errors import HeedError
from heed.launch.processes import Launch, check_world_size, detect_launch
from tests import forkserver

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "train.py"
TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=16",
        "model.d_model=16", "batching.batch_tokens=200", "batching.device_tokens=300", "trainer.validate_every=3",
        "trainer.max_steps=6", "callbacks.attention_maps=null",
        "trainer.log_every=1", "logger=none", "name=x"]  # fmt: skip
TWO = ["trainer=ddp_cpu", "trainer.precision=32-true"]

Process = subprocess.Popen[str]


def start(folder: Path, command: Sequence[str | Path], **environment: str) -> Process:
    return forkserver.Popen(
        [str(word) for word in command], cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip


def wait_for(processes: Sequence[Process]) -> list[tuple[int, str]]:
    """Wait for the processes and return exit status and stderr of each."""
    errors = [process.communicate(timeout=200)[1] for process in processes]
    return [(process.returncode, err) for process, err in zip(processes, errors, strict=True)]


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def torchrun() -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", f"--master-port={free_port()}"]


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs" / "x").iterdir()
    return run


def losses(run: Path) -> list[str]:
    """Return the lines of metrics.csv, after a check that each step and each validation has one."""
    rows = (run / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "2", "3", "3", "4", "5", "6", "6"]
    return rows


@pytest.mark.full
@pytest.mark.reliability
@pytest.mark.parametrize("attempt", range(3))
def test_two_runs_of_one_name_started_at_once_have_two_folders(tmp_path: Path, attempt: int) -> None:
    command = [sys.executable, TRAIN, *TINY, "trainer=cpu"]
    both = [start(tmp_path, [*command, f"seed={seed}"]) for seed in (1, 2)]
    assert [status for status, _ in wait_for(both)] == [0, 0]
    runs = sorted((tmp_path / "runs" / "x").iterdir())
    results = [json.loads((run / "results.json").read_text()) for run in runs]
    assert sorted(result["seed"] for result in results) == [1, 2]
    assert results[0]["test"]["loss"] != results[1]["test"]["loss"]
    assert losses(runs[0]) != losses(runs[1])


@pytest.mark.full
@pytest.mark.reliability
def test_a_run_cannot_be_resumed_twice_at_once(tmp_path: Path) -> None:
    command = [sys.executable, TRAIN, *TINY, "trainer=cpu"]
    ((status, _),) = wait_for([start(tmp_path, command)])
    assert status == 0
    run = only_run(tmp_path)
    (run / "results.json").unlink()
    (run / "checkpoints" / "last-0000006.ckpt").rename(run / "checkpoints" / "last-0000003.ckpt")
    (resumed, _), (refused, why) = sorted(wait_for([start(tmp_path, [*command, "resume=true"]) for _ in range(2)]))
    assert (resumed, refused) == (0, 2)
    assert "is in use by another training process" in why or "no unfinished run" in why
    assert (run / "results.json").exists()


@pytest.mark.reliability
def test_every_launcher_writes_one_folder_and_the_same_metrics(tmp_path: Path) -> None:
    command = [TRAIN, *TINY, *TWO]
    plain, by_torchrun, by_slurm = (tmp_path / name for name in ("plain", "torchrun", "slurm"))
    for folder in (plain, by_torchrun, by_slurm):
        folder.mkdir()
    assert wait_for([start(plain, [sys.executable, *command])])[0][0] == 0
    assert wait_for([start(by_torchrun, [*torchrun(), "--nproc-per-node=2", *command])])[0][0] == 0

    # The environment of the two tasks of a job that srun starts.
    job = {"SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "heed", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2",
           "SLURM_NODELIST": "127.0.0.1", "SLURM_NODEID": "0", "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": free_port()}  # fmt: skip
    tasks = [
        start(by_slurm, [sys.executable, *command], **job, SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank))
        for rank in range(2)
    ]
    assert [status for status, _ in wait_for(tasks)] == [0, 0]

    expected = losses(only_run(plain))
    for folder in (by_torchrun, by_slurm):
        assert losses(only_run(folder)) == expected, folder


@pytest.mark.full
@pytest.mark.reliability
def test_torchrun_on_two_nodes_writes_one_folder(tmp_path: Path) -> None:
    nodes = [*torchrun(), "--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
    each = [TRAIN, *TINY, *TWO, "trainer.devices=1", "trainer.num_nodes=2"]
    both = [start(tmp_path, [*nodes, f"--node-rank={rank}", *each]) for rank in range(2)]
    assert [status for status, _ in wait_for(both)] == [0, 0]
    assert losses(only_run(tmp_path))


def test_a_launcher_with_a_trainer_for_one_process_is_an_error() -> None:
    launch = Launch("torchrun", rank=0, world_size=2, address="127.0.0.1", port=1)
    with pytest.raises(HeedError, match="torchrun started 2 processes, but the trainer is for 1"):
        check_world_size(1, launch)


def test_a_slurm_job_without_tasks_per_node_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "heed", "SLURM_NTASKS": "2", "SLURM_NODELIST": "127.0.0.1"}
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HeedError, match="--ntasks-per-node=2"):
        detect_launch()
