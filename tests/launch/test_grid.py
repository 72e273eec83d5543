"""``train.py -m``: each job has a folder and a wandb run, also when other jobs fail; a table is printed at the end."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heed.report.grid import draw_scores
from heed.runs.table import read_runs, runs_table, sort_runs
from tests import forkserver
from tests.wandb_file import read_wandb

TRAIN = Path(__file__).parents[2] / "train.py"


def test_an_interrupted_grid_goes_on(command: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """A job is finished, the next one has a checkpoint, and the last one has none."""
    options = ("-m", "model=rnn", "model.d_embedding=8", "model.d_model=8,12,16", "data.train=60", "data.valid=5",
               "data.test=5", "data.long=3", "trainer=cpu", "trainer.max_steps=4", "trainer.validate_every=2",
               "trainer.keep_last=2",
               "batching.batch_tokens=100", "schedule.warmup_steps=1", "callbacks.attention_maps=null", "logger=none",
               f"cache_dir={tmp_path}/cache")  # fmt: skip
    status, printed = command(*options)
    assert status == 0, printed
    (grid,) = (tmp_path / "runs/synthetic-rnn").iterdir()
    whole = (grid / "1_rnn" / "metrics.csv").read_bytes()
    finished = (grid / "0_rnn" / "results.json").stat().st_mtime_ns
    for job in ("1_rnn", "2_rnn"):
        (grid / job / "results.json").unlink()
    shutil.rmtree(grid / "2_rnn" / "checkpoints")
    for path in (grid / "1_rnn" / "checkpoints").glob("*-0000004.ckpt"):
        path.unlink()
    assert command("-m", "model=rnn", "model.d_model=8,9", "resume=true")[0] == 2  # another grid
    status, printed = command(*options, "resume=true")
    assert status == 0, printed
    assert f"The grid {grid.relative_to(tmp_path)} goes on: 1 jobs are finished." in printed
    assert list((tmp_path / "runs/synthetic-rnn").iterdir()) == [grid]
    assert (grid / "0_rnn" / "results.json").stat().st_mtime_ns == finished
    assert (grid / "1_rnn" / "metrics.csv").read_bytes() == whole
    rows = read_runs(grid)
    assert [(row["settings"], row["steps"]) for row in rows] == [(f"model.d_model={width}", 4) for width in (8, 12, 16)]


@pytest.mark.full
def test_a_grid_that_is_a_preset(command: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """Options of the command line replace those of the preset. The models differ in their weights."""
    status, printed = command(
        "-m", "experiment=grid_training_strategy", "module/teacher_forcing=full,none", "data.train=300",
        "data.valid=10", "data.test=10", "data.long=4", "model.d_model=16", "model.d_embedding=8", "trainer=cpu",
        "trainer.max_steps=3", "trainer.validate_every=3", "schedule.warmup_steps=1", "logger=none",
        f"cache_dir={tmp_path}/cache",
    )  # fmt: skip
    assert status == 0, printed
    (grid,) = (tmp_path / "runs/grid_training_strategy").iterdir()
    rows = read_runs(grid)
    assert [row["varied"] for row in rows] == [
        {"seed": seed, "module/teacher_forcing": forcing} for seed in ("1", "2") for forcing in ("full", "none")
    ]
    assert len({row["valid_loss"] for row in rows}) == 4
    runs, seeds, minutes = (grid / "sweep.txt").read_text().strip().split("\n\n")
    assert re.fullmatch(r"\d+\.\d minutes for 4 jobs", minutes)
    assert runs == runs_table(sort_runs(rows, "valid_bleu"))
    assert [line.split()[0] for line in seeds.splitlines()] == ["module/teacher_forcing", "full", "none"]
    svg, pdf = draw_scores(grid)
    for text in ("module/teacher_forcing=full", "module/teacher_forcing=none", "test BLEU, mean"):
        assert f"<!-- {text}" in svg.read_text()  # matplotlib draws letters, and writes the text beside them
    assert pdf.read_bytes().startswith(b"%PDF")


@pytest.mark.full
def test_a_sweep_whose_jobs_have_two_processes(tmp_path: Path) -> None:
    # The jobs with guided_alignment=none.align fail: there is no such file.
    settings = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn,transformer_tiny",
                "model.d_model=32", "module.guided_alignment=none.align,null", "trainer=ddp_cpu", "trainer.max_steps=2",
                "trainer.validate_every=2", "trainer.log_every=1", "callbacks.attention_maps=null",
                "batching.device_tokens=128"]  # fmt: skip
    # Without a wandb login.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")}
    environment |= {"HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = forkserver.run(
        [sys.executable, TRAIN, "-m", *settings], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode != 0
    (sweep,) = tmp_path.glob("runs/*/*")
    assert sweep.parent.name == "synthetic-grid"
    jobs = sorted(path.name for path in sweep.iterdir() if path.is_dir())
    assert jobs == ["0_rnn", "1_rnn", "2_transformer_tiny", "3_transformer_tiny"], done.stderr

    for job in (sweep / "1_rnn", sweep / "3_transformer_tiny"):
        assert (job / "results.json").exists(), done.stderr
        assert json.loads((job / "results.json").read_text())["steps"] == 2
        logged = read_wandb(job)
        assert logged.exit_code == 0
        model = job.name.partition("_")[2]
        assert logged.group == f"synthetic-grid/{sweep.name}"
        assert logged.name == f"{logged.group}/{job.name} model={model} module.guided_alignment=null"
        # Two processes write one wandb run, with each step once.
        assert [entry["trainer/global_step"] for entry in logged.history if "train/loss" in entry] == [1, 2]
        assert [entry["trainer/global_step"] for entry in logged.history if "valid/loss" in entry] == [2]

    rows = sort_runs(read_runs(sweep), "valid_bleu")
    assert {row["run"]: row["settings"] for row in rows} == {
        "0_rnn": "model=rnn module.guided_alignment=none.align",
        "1_rnn": "model=rnn module.guided_alignment=null",
        "2_transformer_tiny": "model=transformer_tiny module.guided_alignment=none.align",
        "3_transformer_tiny": "model=transformer_tiny module.guided_alignment=null",
    }
    assert [row["state"][:7] for row in rows] == ["", "", "failed:", "failed:"]
    assert "none.align" in rows[-1]["state"]
    assert (sweep / "sweep.txt").read_text().startswith(runs_table(rows) + "\n")
    assert runs_table(rows) in done.stderr
