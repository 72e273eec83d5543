"""Which checkpoints a run keeps, whatever moment it is killed in."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from heed.runs.selection import SIGN, Selection

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=16",
        "model.d_model=16", "trainer=cpu", "batching.batch_tokens=100", "callbacks.maps=0", "callbacks.log_every=4",
        "trainer.validate_every=3"]  # fmt: skip


def scores(bleu: float, chrf: float, loss: float) -> dict[str, float]:
    return {"bleu": bleu, "chrf": chrf, "loss": loss, "comet": 0.5}


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def validations(folder: Path) -> dict[int, dict[str, float]]:
    with (folder / "metrics.csv").open(newline="") as file:
        found = [row for row in csv.DictReader(file) if row["valid_loss"]]
    return {int(row["step"]): {name: float(row[f"valid_{name}"]) for name in ("bleu", "chrf", "loss")} for row in found}


def test_equal_bleu_is_decided_by_chrf_and_then_by_the_loss() -> None:
    key = Selection("bleu").key
    assert key(scores(2.0, 10.0, 9.0)) > key(scores(1.0, 20.0, 1.0))
    assert key(scores(0.0, 20.0, 9.0)) > key(scores(0.0, 10.0, 1.0))
    assert key(scores(0.0, 10.0, 1.0)) > key(scores(0.0, 10.0, 2.0))


@pytest.mark.parametrize("metric", SIGN)
def test_the_metric_of_selection_decides_first(metric: str) -> None:
    rng = random.Random(3)
    key = Selection(metric).key  # type: ignore[arg-type]
    for _ in range(50):
        one, other = ({name: rng.random() for name in SIGN} for _ in range(2))
        assert (key(one) > key(other)) == (SIGN[metric] * one[metric] > SIGN[metric] * other[metric])


@pytest.mark.slow
@pytest.mark.parametrize("select", ["bleu", "loss"])
def test_the_best_checkpoint_of_a_start_without_bleu_is_the_one_with_the_lowest_loss(
    run: Callable[..., Path], capsys: pytest.CaptureFixture[str], select: str
) -> None:
    folder = run("ties", *TINY, "trainer.max_steps=12", "callbacks.keep_best=2", f"select={select}")
    found = validations(folder)
    assert {found[step]["bleu"] for step in found} == {0.0}
    best = sorted(found, key=lambda step: Selection(select).key(found[step]), reverse=True)  # type: ignore[arg-type]
    assert kept(folder) == sorted([*(f"best-{step:07d}.ckpt" for step in best[:2]), "last-0000012.ckpt"])
    results = json.loads((folder / "results.json").read_text())
    assert (results["select"], results["selected_step"]) == (select, best[0])
    assert f"Weights:  best, of step {best[0]}, by valid {select}." in capsys.readouterr().err


@pytest.mark.slow
def test_a_resumed_run_keeps_what_an_undisturbed_one_keeps_and_writes_the_same_metrics(
    run: Callable[..., Path],
) -> None:
    """Stopped between two rows of metrics.csv, killed while the next row and the next checkpoints were written."""
    end = [*TINY, "trainer.max_steps=9", "callbacks.keep_best=1", "callbacks.early_stopping=5"]
    whole = run("whole", *end)
    stopped = run("stopped", *end, "trainer.max_steps=6")
    (stopped / "results.json").unlink()
    checkpoints = stopped / "checkpoints"
    known = kept(stopped)
    # Left by kills: of a later step, of an earlier one that was to be removed, and of a file half written.
    for name in ("best-0000009", "best-0000001", "last-0000003"):
        (checkpoints / f"{name}.ckpt").write_bytes((checkpoints / known[-1]).read_bytes())
    (checkpoints / "best-0000007.ckpt.partial").write_bytes(b"PK")
    with (stopped / "metrics.csv").open("a") as file:
        file.write("7,0,1.5e-05,6.5,6.4,1.2,,,,,\r\n8,0,1.6")
    resumed = run("stopped", *end, "resume=true")
    assert (resumed / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    assert kept(resumed) == kept(whole)
    states = [
        torch.load(folder / "checkpoints" / "last-0000009.ckpt", weights_only=True) for folder in (whole, resumed)
    ]
    for name, tensor in states[0]["state_dict"].items():
        assert torch.equal(tensor, states[1]["state_dict"][name]), name


@pytest.mark.slow
def test_the_best_and_the_last_checkpoint_of_a_step_are_one_file(run: Callable[..., Path]) -> None:
    folder = run("linked", *TINY, "trainer.max_steps=3")
    files = [path.stat() for path in (folder / "checkpoints").iterdir()]
    assert len(files) == 2
    assert files[0].st_ino == files[1].st_ino


def without(*keys: str) -> Callable[[dict[str, Any]], None]:
    """Removes the last of the keys from the mapping that the others lead to."""

    def damage(checkpoint: dict[str, Any]) -> None:
        *path, last = keys
        for key in path:
            checkpoint = checkpoint[key]
        del checkpoint[last]

    return damage


def replaced(*keys: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def damage(checkpoint: dict[str, Any]) -> None:
        *path, last = keys
        for key in path:
            checkpoint = checkpoint[key]
        checkpoint[last] = value

    return damage


DAMAGES = {
    "no optimizer states": without("optimizer_states"),
    "empty optimizer states": replaced("optimizer_states", value=[]),
    "optimizer states of another shape": replaced("optimizer_states", value=[{"state": {}, "param_groups": [{}]}]),
    "foreign loops": replaced("loops", value={"fit_loop": {"anything": 1}}),
    "no loops": without("loops", "fit_loop"),
    "loops that are text": replaced("loops", "fit_loop", value="text"),
    "no data cursor": replaced("TranslationData", value={}),
    "a cursor that is text": replaced("TranslationData", value={"epoch": "one", "step": 0}),
    "half a journal": replaced("callbacks", "MetricsLogger", value={"epoch": 0}),
    "no version": without("pytorch-lightning_version"),
    "a version that is none": replaced("pytorch-lightning_version", value="yesterday"),
    "weights that are text": replaced("state_dict", value={"model.encoder": "text"}),
}


@pytest.mark.slow
@pytest.mark.reliability
def test_a_checkpoint_with_anything_missing_or_foreign_is_refused_by_name(
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
        status, said = command(*settings, folder, "trainer.max_steps=5", f"ckpt_path={tmp_path}/{number}.ckpt")
        assert status == 2, (name, said)
        assert f"{number}.ckpt" in said, name
        assert not (tmp_path / f"damaged-{number}").exists(), name
