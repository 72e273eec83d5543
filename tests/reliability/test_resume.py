"""Killed and resumed runs equal uninterrupted ones; and the soak test detects differences."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from soak.comparison import compare, lineage
from soak.process import Attempt, Kill
from soak.trial import TRANSFORMER, VALIDATE_EVERY, Setting, kill_and_resume, train_reference

from tests import forkserver

pytestmark = pytest.mark.reliability

EVERYTHING = Setting(
    "everything",
    (
        *TRANSFORMER,
        "optimizer=muon",
        "tokenizer.bpe_dropout=0.1",
        "module.r_drop=2.0",
        "module/teacher_forcing=linear",
        "callbacks.ema.decay=0.9",
        "weights=ema",
    ),
)
"""Everything with a state or random numbers, in one run."""


KILLS = [
    Kill("training", VALIDATE_EVERY + 3, 0.0),  # after a log row and before the next
    Kill("preparation", 0, 0.1),
    Kill("checkpoint", 4, 0.002),
]


@pytest.mark.full
@pytest.mark.parametrize(("kills", "steps"), [(KILLS[:1], 12), (KILLS[1:], 24)], ids=["once", "twice"])
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: list[Kill], steps: int
) -> None:
    forks = SimpleNamespace(Popen=forkserver.Popen, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr("soak.process.subprocess", forks)
    setting = replace(EVERYTHING, overrides=(*EVERYTHING.overrides, f"trainer.max_steps={steps}"))
    reference = train_reference(setting, tmp_path)
    outcome = kill_and_resume(setting, 1, seed=1, kills=len(kills), folder=tmp_path, reference=reference, planned=kills)
    assert not outcome.problems
    assert outcome.kills.total() == len(kills)
    assert outcome.resumed >= 1


def attempt(start: int, *steps: tuple[int, int, int, dict[str, list[int]]]) -> Attempt:
    """An attempt that starts at a step and takes others: (global step, epoch, number in the epoch, micro-batches)."""
    events: list[dict[str, Any]] = [{"event": "started", "pid": 1, "step": start}]
    for step, epoch, number, sentences in steps:
        record = {"step": step, "epoch": epoch, "number": number, "sentences": sentences}
        events.append({"event": "step", "pid": 1, **record})
    return Attempt(status=0, events=events)


FIRST, SECOND, THIRD = ((n + 1, 0, n, {"0": [2 * n], "1": [2 * n + 1]}) for n in range(3))


@pytest.mark.parametrize(
    ("resumed", "expected"),
    [
        (attempt(1, (2, 0, 2, THIRD[3])), "lost"),  # resumed one step too far
        (attempt(1, (2, 0, 0, FIRST[3]), (3, 0, 2, THIRD[3])), "repeated"),
        (attempt(1, (2, 0, 2, THIRD[3]), (3, 0, 1, SECOND[3])), "order"),
    ],
)
def test_lost_repeated_and_reordered_sentences_are_detected(tmp_path: Path, resumed: Attempt, expected: str) -> None:
    whole = lineage([attempt(0, FIRST, SECOND, THIRD)])
    steps = lineage([attempt(0, FIRST, SECOND), resumed])
    folder = finished(tmp_path / "run")
    found = compare(folder, steps, folder, whole, exact=True)
    assert {"lost": found.lost, "repeated": found.repeated, "order": found.order}[expected]
    assert found.problems(exact=False)


def finished(folder: Path, weight: float = 0.5, bleu: float = 1.0, seconds: float = 2.0) -> Path:
    """A finished run folder with two weights."""
    for part in ("model", "checkpoints", "translations"):
        (folder / part).mkdir(parents=True)
    weights = {"w": torch.tensor([weight, 1.0])}
    save_file(weights, folder / "model" / "model.safetensors")
    torch.save({"state_dict": weights}, folder / "checkpoints" / "last-0000001.ckpt")
    (folder / "metrics.csv").write_text("step\n1\n")
    (folder / "results.json").write_text(json.dumps({"test": {"bleu": bleu}, "train_seconds": seconds}))
    (folder / "translations" / "test.hyp").write_text("eins\n")
    return folder


def test_differences_of_files_are_detected(tmp_path: Path) -> None:
    reference = finished(tmp_path / "reference")
    same = compare(finished(tmp_path / "same", seconds=3.0), {}, reference, {}, exact=True)
    assert same.problems(exact=True) == []

    almost = 0.5 + 2**-24  # the next float32
    other = finished(tmp_path / "other", weight=almost, bleu=2.0)
    (other / "metrics.csv").write_text("step\n1\n1\n")
    (other / "translations" / "test.hyp").write_text("zwei\n")
    (other / "checkpoints" / "last-0000000.ckpt").write_text("")
    found = compare(other, {}, reference, {}, exact=True)
    assert 0 < found.weights < 1e-6
    assert found.metrics
    assert found.results == ("test",)
    assert found.translations == ("test.hyp",)
    assert found.files == ("checkpoints/last-0000000.ckpt",)
    # With another number of processes, weights may differ by rounding only.
    assert found.problems(exact=False) == []
    assert compare(finished(tmp_path / "far", weight=0.6), {}, reference, {}, exact=False).problems(exact=False)
