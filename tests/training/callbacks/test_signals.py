"""Signals stop a run after saving a checkpoint, and resuming it gives the result of an uninterrupted run."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from heed.runs.config import read_config
from heed.runs.records import read_csv
from tests import forkserver

ROOT = Path(__file__).parents[3]
Run = Callable[..., Path]

TINY = ["model=rnn", "model.d_embedding=8", "model.d_model=8", "trainer=cpu", "trainer.max_epochs=null",
        "schedule=inverse_sqrt", "trainer.validate_every=100000", "callbacks.attention_maps=null", "search=greedy",
        "weights=last", "logger=none", "batching.batch_tokens=40", "optimizer.lr=0.01"]  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., list[str]]:
    """``corpus(pairs=…, words=…)``: options that train on random pairs, and validate and test on the first 8."""

    def write(*, pairs: int, words: int) -> list[str]:
        rng = random.Random(7)
        lines = [" ".join(rng.choices("abcdefghij", k=words)) for _ in range(pairs)]
        for name, count in (("train", pairs), ("some", 8)):
            for suffix, step in (("xx", 1), ("yy", -1)):
                (tmp_path / f"{name}.{suffix}").write_text("".join(f"{line[::step]}\n" for line in lines[:count]))
        some = f"[['{tmp_path}/some.xx','{tmp_path}/some.yy']]"
        train = f"[['{tmp_path}/train.xx','{tmp_path}/train.yy']]"
        cleaning = ["data.cleaning.drop_leaked=false", "data.cleaning.drop_duplicates=false"]
        return ["data=files", *cleaning, f"data.train={train}", f"data.valid={some}", f"data.test={some}"]

    return write


@contextmanager
def started(*command: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a program; its stderr can be read line by line."""
    with forkserver.Popen(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], beginning: str) -> str:
    """Return the output up to the first line with this beginning."""
    assert process.stderr is not None
    output = ""
    for line in process.stderr:
        output += line
        if line.startswith(beginning):
            return output
    raise AssertionError(output)


def read_rest(process: subprocess.Popen[str]) -> str:
    """Return the rest of the output."""
    _, output = process.communicate(timeout=120)
    assert "Traceback" not in output
    return output


def last_step(folder: Path) -> int:
    # The checkpoint from which the run was resumed is still there.
    return max(int(checkpoint.stem.partition("-")[2]) for checkpoint in folder.glob("checkpoints/last-*.ckpt"))


def same_weights(*folders: Path) -> bool:
    first, *others = (load_file(folder / "model" / "model.safetensors") for folder in folders)
    return all(torch.equal(tensor, other[name]) for other in others for name, tensor in first.items())


@pytest.mark.full
def test_a_run_that_is_stopped_thrice_ends_like_an_uninterrupted_run(
    run: Run, corpus: Callable[..., list[str]], tmp_path: Path
) -> None:
    settings = [*corpus(pairs=40, words=5), *TINY, "trainer.validate_every=3", f"cache_dir={tmp_path / 'cache'}"]
    folder = tmp_path / "runs" / "stopped"
    command = [sys.executable, "train.py", *settings, f"hydra.run.dir={folder}", "trainer.log_every=1"]
    stops = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        with started(*command) as process:
            read_until(process, "step ")
            process.send_signal(number)
            output = read_rest(process)
            assert process.returncode == 130
        assert "Saving after this step; press Ctrl-C again to quit now." in output
        # The test set is not translated.
        assert not (folder / "results.json").exists()
        assert not (folder / "translations").exists()
        stops.append(last_step(folder))
        assert f"The last checkpoint is {folder}/checkpoints/last-{stops[-1]:07d}.ckpt. To resume: " in output
        _, told, *command[2:] = shlex.split(output.partition("To resume: ")[2])
        assert told == "train.py"
        assert command[2:] == [f"resume={folder}"]
    assert 0 < stops[0] < stops[1] < stops[2]

    end = [*settings, f"trainer.max_steps={stops[2] + 7}"]
    resumed = run("stopped", *end, "trainer.log_every=1", "resume=true")
    warmup = read_config(resumed)["schedule"]["warmup_steps"]  # auto, chosen before the limit of steps was known
    whole = run("whole", *end, f"schedule.warmup_steps={warmup}")
    assert same_weights(whole, resumed)
    assert json.loads((resumed / "results.json").read_text())["steps"] == stops[2] + 7
    # Every step is taken once, and validations follow the same steps.
    rows = read_csv(resumed / "metrics.csv")
    assert [int(row["step"]) for row in rows if row["loss"]] == list(range(1, stops[2] + 8))
    validations = [(row["step"], row["valid_loss"]) for row in rows if row["valid_loss"]]
    assert validations == [
        (row["step"], row["valid_loss"]) for row in read_csv(whole / "metrics.csv") if row["valid_loss"]
    ]
    assert len(validations) > stops[2] // 3


@pytest.mark.full
def test_a_second_signal_exits_during_the_step(corpus: Callable[..., list[str]], tmp_path: Path) -> None:
    # One step takes seconds.
    slow = [*corpus(pairs=300, words=30), *TINY, "batching.batch_tokens=4000", "model.d_model=1024"]
    folder = tmp_path / "run"
    command = [sys.executable, "train.py", *slow, f"hydra.run.dir={folder}", f"cache_dir={tmp_path / 'cache'}"]
    with started(*command, "trainer.log_every=1") as process:
        read_until(process, "Training: ")
        time.sleep(1)  # until the next step has started
        process.send_signal(signal.SIGTERM)
        read_until(process, "Saving after this step")
        process.send_signal(signal.SIGINT)
        assert read_rest(process) == ""
        assert process.returncode == 130
    assert not list(folder.glob("checkpoints/*"))


@pytest.mark.full
def test_sigterm_before_training_exits_with_its_status(corpus: Callable[..., list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*corpus(pairs=300, words=30), *TINY, f"hydra.run.dir={folder}", f"cache_dir={tmp_path / 'cache'}"]
    with started(sys.executable, "train.py", *options) as process:
        while process.poll() is None and not folder.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert "Saving" not in read_rest(process)
        assert process.returncode == 130


@pytest.mark.full
def test_a_run_stopped_before_its_results_resumes_without_further_training(
    run: Run, corpus: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Also a run that started from another run's model."""
    settings = [*corpus(pairs=40, words=5), *TINY, "trainer.max_steps=2"]
    parent = run("parent", *settings)
    child = [*settings, f"init_from='{parent}'", "seed=2"]
    folder = run("child", *child)
    finished = json.loads((folder / "results.json").read_text())
    (folder / "results.json").unlink()
    again = json.loads((run("child", *child, "resume=true") / "results.json").read_text())
    assert [again[key] for key in ("steps", "valid", "test")] == [finished[key] for key in ("steps", "valid", "test")]
