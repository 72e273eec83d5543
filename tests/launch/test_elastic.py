"""A run that was killed resumes on another number of processes; what happens in one process concerns all."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from heed.runs.records import read_csv
from tests import forkserver
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
# Adam divides by the gradient's size, so gradients that are 0 up to rounding would give random updates: SGD.
TINY = ["data.train=120", "data.valid=10", "data.test=6", "data.long=4", "model=transformer_tiny", "model.d_model=16",
        "model.num_heads=2", "model.d_ff=32", "optimizer=sgd", "optimizer.lr=0.1", "schedule=constant",
        "batching.batch_tokens=200", "batching.device_tokens=130", "trainer.validate_every=4", "trainer.max_steps=60",
        "trainer.precision=32-true", "trainer.log_every=1", "callbacks.attention_maps=null", "search=greedy",
        "weights=last", "logger=none"]  # fmt: skip


def start(tmp_path: Path, folder: Path, processes: int, *options: str) -> subprocess.Popen[str]:
    """Start a run on some processes, in a process group of its own."""
    trainer = ["trainer=ddp_cpu", f"trainer.devices={processes}"] if processes > 1 else ["trainer=cpu"]
    words = [*TINY, *trainer, f"cache_dir={tmp_path}/cache", f"hydra.run.dir={folder}", *options]
    return forkserver.Popen(
        [sys.executable, str(ROOT / "train.py"), *words],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 0, printed


@pytest.mark.full
@pytest.mark.reliability
def test_a_run_killed_on_two_processes_resumes_on_one_and_on_three(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(tmp_path, whole, 2))
    process = start(tmp_path, killed, 2)
    try:
        wait_for(lambda: list(killed.glob("checkpoints/last-*.ckpt")))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not (killed / "results.json").exists()

    expected = read_csv(whole / "metrics.csv")
    results = json.loads((whole / "results.json").read_text())
    for processes in (1, 3):
        folder = tmp_path / f"on_{processes}"
        shutil.copytree(killed, folder)
        finish(start(tmp_path, folder, processes, "resume=true"))
        # The mean loss of each step shows that it has the same sentences.
        found = read_csv(folder / "metrics.csv")
        assert [row["step"] for row in found] == [row["step"] for row in expected]
        for name in ("loss", "nll", "grad_norm", "valid_loss"):
            values, wanted = ([float(row[name]) for row in table if row[name]] for table in (found, expected))
            assert values == pytest.approx(wanted, rel=1e-3), (processes, name)
        resumed = json.loads((folder / "results.json").read_text())
        assert resumed["test"]["loss"] == pytest.approx(results["test"]["loss"], rel=1e-4)
        assert resumed["steps"] == 60


BAD = """
from lightning.pytorch.callbacks import Callback


class NaNLoss(Callback):
    def on_train_batch_start(self, trainer, module, shard, batch_idx):
        assert shard.micro_batches
        compute = type(module).summed_loss.__get__(module)
        is_bad = trainer.global_rank == 1 and trainer.global_step == 2
        module.summed_loss = lambda batch: tuple(x * float("nan") if is_bad else x for x in compute(batch))
"""


@pytest.mark.full
@pytest.mark.reliability
@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_a_loss_that_is_not_finite_in_one_process_skips_the_step_in_all(tmp_path: Path, precision: str) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    folder = tmp_path / "run"
    options = ["trainer.max_steps=6", "trainer.validate_every=3", f"trainer.precision={precision}"]
    finish(start(tmp_path, folder, 2, *options, "+callbacks.bad._target_=bad.NaNLoss", "module.clip_norm=1.0"))
    results = json.loads((folder / "results.json").read_text())
    assert (results["steps"], results["skipped_steps"]) == (6, 1)
    (checkpoint,) = (folder / "checkpoints").glob("last-*.ckpt")
    weights = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert all(tensor.isfinite().all() for tensor in weights.values())
