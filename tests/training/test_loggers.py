"""Loggers, checked by reading the files that they wrote."""

import importlib.util
import json
import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from lightning.pytorch.loggers import WandbLogger
from PIL import Image

from heed.errors import HeedError
from heed.runs.records import read_csv
from heed.training.loggers import closing, log_images, log_table, run_names, tensorboard_logger, wandb_logger
from tests.finished import FinishedRun
from tests.wandb_file import read_wandb

CONFIG = {"name": "tiny", "seed": 1}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # wandb and Lightning set these variables; monkeypatch restores them.
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(3).integers(256, size=(5, 7, 3), dtype=np.uint8)
    path = tmp_path / "picture.png"
    Image.fromarray(pixels).save(path)
    return path


def test_wandb_has_the_metrics_of_metrics_csv_and_more(finished: FinishedRun) -> None:
    folder = finished.folder
    logged = read_wandb(folder)
    assert logged.exit_code == 0
    assert logged.config["seed"] == 1
    assert logged.config["callbacks"]["sample_translations"]["sentences"] == 3

    rows = read_csv(folder / "metrics.csv")
    assert [row["step"] for row in rows] == ["2", "2", "4", "4"]
    for row in rows:
        kind = "train" if row["loss"] else "valid"
        keys = ("loss", "nll", "lr", "grad_norm") if kind == "train" else ("loss", "bleu", "chrf")
        (entry,) = (
            entry
            for entry in logged.history
            if entry["trainer/global_step"] == int(row["step"]) and f"{kind}/loss" in entry
        )
        for key in keys:
            assert f"{entry[f'{kind}/{key}']:.6g}" == row[key if kind == "train" else f"valid_{key}"]
        if kind == "train":
            assert entry["train/tokens_per_second"] > 0
            assert 0 <= entry["train/padding"] < 1

    tables = [entry for entry in logged.history if "valid/translations.path" in entry]
    assert [entry["trainer/global_step"] for entry in tables] == [2, 4]
    contents = [json.loads((logged.files / entry["valid/translations.path"]).read_text()) for entry in tables]
    assert contents[0]["columns"] == ["source", "reference", "translation"]
    assert [row[:2] for row in contents[0]["data"]] == [row[:2] for row in contents[1]["data"]]
    # The final translations come from the weights of the last validation, and both are greedy.
    written = zip(
        *((folder / "translations" / f"valid.{side}").read_text().splitlines() for side in ("src", "ref", "hyp")),
        strict=True,
    )
    assert [tuple(row) for row in contents[1]["data"]] == list(written)[::7]

    assert logged.summary["results"] == json.loads((folder / "results.json").read_text())
    assert logged.summary["results"]["test"]["bleu_signature"].startswith("nrefs:1|")


def test_an_offline_run_prints_the_command_that_uploads_it(finished: FinishedRun) -> None:
    (line,) = (line for line in finished.printed.splitlines() if line.startswith("Upload:"))
    _, program, command, folder = shlex.split(line)
    assert (program, command) == ("wandb", "sync")
    (written,) = finished.folder.glob("wandb/offline-run-*")
    assert (finished.folder.parents[2] / folder).samefile(written)


def test_two_loggers_have_the_same_losses(finished: FinishedRun) -> None:
    rows = read_csv(finished.folder / "log" / "version_0" / "metrics.csv")
    csv_losses = [float(row["train/loss"]) for row in rows if row["train/loss"]]
    wandb_losses = [entry["train/loss"] for entry in read_wandb(finished.folder).history if "train/loss" in entry]
    assert csv_losses == pytest.approx(wandb_losses)
    assert len(csv_losses) == 2


def test_wandb_gets_pictures_and_the_status_of_a_failed_run(tmp_path: Path, picture: Path) -> None:
    loggers = [wandb_logger(folder=tmp_path, config=CONFIG, project="heed", mode="offline")]

    def log_and_fail() -> None:
        with closing(loggers):
            log_images(loggers, "attention", {"sentence 1": picture}, step=5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log_and_fail()
    logged = read_wandb(tmp_path)
    (entry,) = logged.history
    assert entry["trainer/global_step"] == 5
    assert (logged.files / entry["attention/sentence 1.path"]).read_bytes() == picture.read_bytes()
    assert logged.exit_code == 1


def test_the_parts_of_an_interrupted_run_have_one_count_of_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for steps in ((10, 20), (20, 30)):
        time.sleep(1.1)  # wandb names a folder after the second
        loggers = [wandb_logger(folder=tmp_path, config=CONFIG, project="heed", mode="offline")]
        with closing(loggers):
            for step in steps:
                loggers[0].log_metrics({"train/loss": 1 / step}, step=step)
                loggers[0].log_metrics({"valid/loss": 2 / step}, step=step)
    parts = sorted((tmp_path / "wandb").glob("offline-run-*"))
    logged = [read_wandb(tmp_path, f"wandb/{part.name}").history for part in parts]
    assert [[entry["_step"] for entry in part] for part in logged] == [[10, 20], [20, 30]]
    assert all({"train/loss", "valid/loss"} <= entry.keys() for part in logged for entry in part)
    assert capsys.readouterr().err.splitlines()[-1] == f"Upload:   wandb sync {parts[0]} {parts[1]}"


def write_yaml(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))


def test_runs_are_named_after_their_folders_and_resumed_ones_keep_their_id(tmp_path: Path) -> None:
    grid = tmp_path / "runs" / "synthetic-grid" / "now"
    task = ["model=rnn,transformer", "seed=1,2", "trainer=cpu"]
    write_yaml(grid / "multirun.yaml", {"hydra": {"overrides": {"task": task}}})
    job = grid / "2_transformer"
    write_yaml(job / ".hydra" / "overrides.yaml", ["model=transformer", "seed=1", "trainer=cpu"])
    logger = wandb_logger(folder=job, config=CONFIG, project="heed", mode="offline")
    with closing([logger]):
        logger.log_metrics({"train/loss": 2.5}, step=1)
    first = read_wandb(job)
    assert first.name == "synthetic-grid/now/2_transformer model=transformer seed=1"
    assert first.group == "synthetic-grid/now"
    resumed = wandb_logger(folder=job, config=CONFIG, project="heed", mode="offline")
    assert isinstance(resumed, WandbLogger)
    assert resumed._wandb_init["id"] == first.run_id
    assert run_names(tmp_path / "runs" / "study" / "7") == ("study/7", "study")
    assert run_names(tmp_path / "study" / "7") == ("study/7", "study")


def test_tensorboard_gets_numbers_only(tmp_path: Path, picture: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loggers = [tensorboard_logger(folder=tmp_path, config=CONFIG)]
    loggers[0].log_metrics({"train/loss": 2.5}, step=5)
    log_images(loggers, "attention", {"sentence 1": picture}, step=5)
    log_table(loggers, "valid/translations", ["source", "translation"], [["a | b", "c"]], step=5)
    loggers[0].finalize("success")
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(5, 2.5)]
    assert events.Tags()["images"] == events.Tags()["tensors"] == []


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) for name in ("tensorboard", "tensorboardX")), reason="TensorBoard is installed"
)
def test_missing_tensorboard_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(HeedError, match=r"pip install -e '\.\[tensorboard\]'"):
        tensorboard_logger(folder=tmp_path, config=CONFIG)
