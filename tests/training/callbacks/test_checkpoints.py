"""Which checkpoints a run keeps, also after a kill, and which checkpoints it refuses to resume from."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch

from heed.run_format import RUN_FORMAT
from heed.runs.checkpoints import BUILT_IN, Selection, sign
from heed.runs.records import read_csv
from heed.training.callbacks.checkpoints import Checkpoints

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=16",
        "model.d_model=16", "trainer=cpu", "batching.batch_tokens=100", "callbacks.attention_maps=null",
        "trainer.log_every=4", "trainer.validate_every=3"]  # fmt: skip


def scores(bleu: float, chrf: float, loss: float) -> dict[str, float]:
    return {"bleu": bleu, "chrf": chrf, "loss": loss, "comet": 0.5}


def kept_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def validations(folder: Path) -> dict[int, dict[str, float]]:
    found = [row for row in read_csv(folder / "metrics.csv") if row["valid_loss"]]
    return {int(row["step"]): {name: float(row[f"valid_{name}"]) for name in ("bleu", "chrf", "loss")} for row in found}


def test_chrf_and_then_the_loss_break_ties_in_bleu() -> None:
    key = Selection("bleu").key
    assert key(scores(2.0, 10.0, 9.0)) > key(scores(1.0, 20.0, 1.0))
    assert key(scores(1.0, 20.0, 9.0)) > key(scores(1.0, 10.0, 1.0))
    assert key(scores(1.0, 10.0, 1.0)) > key(scores(1.0, 10.0, 2.0))


def test_the_loss_decides_below_one_bleu() -> None:
    key = Selection("bleu").key
    assert key(scores(0.02, 5.0, 6.30)) > key(scores(0.10, 9.0, 7.82))
    assert key(scores(1.0, 5.0, 9.0)) > key(scores(0.99, 9.0, 1.0))
    assert key(scores(0.02, 5.0, 9.0)) > key(scores(0.10, 9.0, math.nan))
    assert Selection("chrf").key(scores(0.0, 9.0, 9.0)) > Selection("chrf").key(scores(0.0, 5.0, 1.0))


@pytest.mark.parametrize("metric", [*BUILT_IN, "comet"])
def test_the_selected_metric_is_compared_first(metric: str) -> None:
    rng = random.Random(3)
    key = Selection(metric).key
    for _ in range(50):
        one, other = ({name: rng.uniform(1, 100) for name in (*BUILT_IN, "comet")} for _ in range(2))
        assert (key(one) > key(other)) == (sign(metric) * one[metric] > sign(metric) * other[metric])


@pytest.mark.full
@pytest.mark.parametrize("select", ["bleu", "loss"])
def test_the_loss_selects_the_best_checkpoint_while_bleu_is_zero(
    run: Callable[..., Path], capsys: pytest.CaptureFixture[str], select: str
) -> None:
    folder = run("ties", *TINY, "trainer.max_steps=12", "trainer.keep_best=2", f"select={select}")
    found = validations(folder)
    assert {found[step]["bleu"] for step in found} == {0.0}
    best = sorted(found, key=lambda step: Selection(select).key(found[step]), reverse=True)
    assert kept_files(folder) == sorted([*(f"best-{step:07d}.ckpt" for step in best[:2]), "last-0000012.ckpt"])
    results = json.loads((folder / "results.json").read_text())
    assert (results["select"], results["selected_step"]) == ("loss", best[0])
    err = capsys.readouterr().err
    assert f"Weights:  best, of step {best[0]}, selected by valid loss." in err


@pytest.mark.full
def test_a_resumed_run_ends_with_the_checkpoints_and_metrics_of_an_uninterrupted_run(run: Callable[..., Path]) -> None:
    """The run stops between two rows of metrics.csv, and is killed while it writes the next row and checkpoints."""
    end = [*TINY, "trainer.max_steps=9", "trainer.keep_best=1", "callbacks.early_stopping.patience=5"]
    whole = run("whole", *end)
    stopped = run("stopped", *end, "trainer.max_steps=6")
    (stopped / "results.json").unlink()
    checkpoints = stopped / "checkpoints"
    known = kept_files(stopped)
    # Files left by kills: of a later step, of an earlier step that should have been removed, and a partial one.
    for name in ("best-0000009", "best-0000001", "last-0000003"):
        (checkpoints / f"{name}.ckpt").write_bytes((checkpoints / known[-1]).read_bytes())
    (checkpoints / "best-0000007.ckpt.0123abcd.partial").write_bytes(b"PK")
    with (stopped / "metrics.csv").open("a") as file:
        file.write("7,0,1.5e-05,6.5,6.4,1.2,,,,,\r\n8,0,1.6")
    resumed = run("stopped", *end, "resume=true")
    for name in ("metrics.csv", "samples.jsonl"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes()
    known_speed = [[(row["step"], row["tokens"]) for row in read_csv(run / "speed.csv")] for run in (resumed, whole)]
    assert known_speed[0] == known_speed[1]
    assert kept_files(resumed) == kept_files(whole)
    states = [
        torch.load(folder / "checkpoints" / "last-0000009.ckpt", weights_only=True) for folder in (whole, resumed)
    ]
    for name, tensor in states[0]["state_dict"].items():
        assert torch.equal(tensor, states[1]["state_dict"][name]), name


def test_a_resumed_run_names_the_best_checkpoints_that_were_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", selection=Selection("loss"), keep_best=2, keep_last=1)
    trainer, module = L.Trainer(logger=False, barebones=True), L.LightningModule()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best-0000020.ckpt").touch()
    checkpoints.load_state_dict({"scores": {10: {"loss": 1.0}, 20: {"loss": 2.0}}})
    checkpoints.on_train_start(trainer, module)
    assert checkpoints.best == [tmp_path / "checkpoints" / "best-0000020.ckpt"]
    assert capsys.readouterr().err.startswith("Of the best checkpoints, best-0000010.ckpt no longer")


def test_a_run_that_was_killed_after_its_last_step_averages_the_right_checkpoints(run: Callable[..., Path]) -> None:
    """A kill between the last checkpoint and the removal of an earlier one leaves nothing to train."""
    options = [*TINY, "trainer.max_steps=3", "trainer.validate_every=1", "trainer.keep_last=2"]
    options += ["weights=average_last_k"]
    folder = run("killed", *options)
    steps = json.loads((folder / "results.json").read_text())["averaged_steps"]
    (folder / "results.json").unlink()
    (folder / "checkpoints/last-0000001.ckpt").write_bytes((folder / "checkpoints/last-0000003.ckpt").read_bytes())
    assert json.loads((run("killed", *options, "resume=true") / "results.json").read_text())["averaged_steps"] == steps


@pytest.mark.full
def test_the_best_and_the_last_checkpoint_of_a_step_are_hard_links(run: Callable[..., Path]) -> None:
    folder = run("linked", *TINY, "trainer.max_steps=3")
    files = [path.stat() for path in (folder / "checkpoints").iterdir()]
    assert len(files) == 2
    assert files[0].st_ino == files[1].st_ino


REMOVED = object()


def replace(*keys: str, value: Any = REMOVED) -> Callable[[dict[str, Any]], None]:
    """Return a function that replaces or removes the entry at a path of keys."""

    def damage(checkpoint: dict[str, Any]) -> None:
        *path, last = keys
        for key in path:
            checkpoint = checkpoint[key]
        checkpoint[last] = value
        if value is REMOVED:
            del checkpoint[last]

    return damage


DAMAGES = {
    "no optimizer states": replace("optimizer_states"),
    "empty optimizer states": replace("optimizer_states", value=[]),
    "optimizer states of another shape": replace("optimizer_states", value=[{"state": {}, "param_groups": [{}]}]),
    "foreign loops": replace("loops", value={"fit_loop": {"anything": 1}}),
    "no loops": replace("loops", "fit_loop"),
    "loops that are text": replace("loops", "fit_loop", value="text"),
    "no data cursor": replace("TranslationData", value={}),
    "a cursor that is text": replace("TranslationData", value={"epoch": "one", "step": 0}),
    "half of the totals": replace("callbacks", "MetricsLogger", value={"epoch": 0}),
    "no number of skipped steps": replace("skipped_steps"),
    "no format": replace("heed_format"),
    "an earlier format": replace("heed_format", value=1),
    "a newer format": replace("heed_format", value=RUN_FORMAT + 1),
    "a format that is text": replace("heed_format", value="two"),
    "no version": replace("pytorch-lightning_version"),
    "a version that is not one": replace("pytorch-lightning_version", value="yesterday"),
    "weights that are text": replace("state_dict", value={"model.encoder": "text"}),
}


@pytest.mark.full
@pytest.mark.reliability
def test_a_checkpoint_with_a_missing_or_foreign_entry_is_refused_by_name(
    command: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    settings = [*TINY, "trainer.max_steps=3", "logger=none", "search=greedy"]
    status, _ = command(*settings, "hydra.run.dir=whole")
    assert status == 0
    checkpoint = tmp_path / "whole" / "checkpoints" / "last-0000003.ckpt"
    for number, (name, damage) in enumerate(DAMAGES.items()):
        state = torch.load(checkpoint, weights_only=True)
        damage(state)
        torch.save(state, tmp_path / f"{number}.ckpt")
        folder = f"hydra.run.dir=damaged-{number}"
        status, stderr = command(*settings, folder, "trainer.max_steps=5", f"ckpt_path={tmp_path}/{number}.ckpt")
        assert status == 2, (name, stderr)
        assert f"{number}.ckpt" in stderr, name
        assert not (tmp_path / f"damaged-{number}").exists(), name


def test_a_checkpoint_that_another_program_reads_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (tmp_path / f"last-000000{step}.ckpt" for step in (1, 2))
    old.touch()
    new.touch()

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "The file is open", str(path))

    checkpoints = Checkpoints(tmp_path, selection=Selection(), keep_best=0, keep_last=1)
    with monkeypatch.context() as windows:
        windows.setattr(Path, "unlink", refuse)
        checkpoints._remove_others(2)
    assert checkpoints.last == [new, old]
    checkpoints._remove_others(2)
    assert checkpoints.last == [new]
