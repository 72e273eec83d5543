"""Diagnoses of real runs: what is printed and stored, and that a resumed run says nothing twice."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
import torch
from grammar.corpus import generate

from heed.training.callbacks.diagnosis import Diagnosis, usual_lr
from heed.training.muon import Muon
from tests.finished import FinishedRun

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=8",
        "model.d_model=8", "trainer=cpu", "batching.batch_tokens=200", "trainer.validate_every=2", "search=greedy",
        "callbacks.attention_maps=null", "callbacks.attention_heads=null", "test=false"]  # fmt: skip


def diagnoses(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "diagnoses.jsonl").read_text(encoding="utf-8").splitlines()]


def test_muon_is_used_with_a_higher_learning_rate_than_adam() -> None:
    weights = [{"kind": "matrix", "params": [torch.ones(2, 2)]}]
    muon = Muon(
        weights, lr=1.0, momentum=0.9, newton_schulz=5, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
    )
    others = torch.optim.NAdam(weights), torch.optim.SGD(weights)
    assert [usual_lr(optimizer) for optimizer in (muon, *others)] == [1e-2, 1e-3, None]


def test_a_run_says_and_stores_why_its_model_is_bad(finished: FinishedRun) -> None:
    found = diagnoses(finished.folder)
    assert {"step_size", "warm_up"} <= {entry["name"] for entry in found}
    for entry in found:
        assert set(entry) == {"step", "name", "message"}
        assert finished.printed.count(f"Diagnosis: {entry['message']}\n") == 1
    assert found[0]["step"] == 0


def test_a_resumed_run_says_nothing_twice(run: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("resumed", *TINY, "trainer.max_steps=2", "model.dropout=0.9")
    before = diagnoses(folder)
    assert "dropout" in {entry["name"] for entry in before}
    (folder / "results.json").unlink()
    capsys.readouterr()
    run("resumed", *TINY, "trainer.max_steps=4", "model.dropout=0.9", "resume=true")
    assert diagnoses(folder)[: len(before)] == before
    names = [entry["name"] for entry in diagnoses(folder)]
    assert len(names) == len(set(names))
    assert "model.dropout" not in "".join(line for line in capsys.readouterr().err.splitlines() if "Diagnosis" in line)


def test_the_last_validation_of_a_run_that_early_stopping_ends_is_judged(run: Callable[..., Path]) -> None:
    # Neither chrF nor the loss improves, and translations are too short. This is said at the end, long before step 400.
    folder = run("stopped", *TINY, "data.train=120", "trainer.max_epochs=null", "trainer.max_steps=400",
                 "schedule.warmup_steps=10", "callbacks.early_stopping.patience=1", "select=chrf",
                 "optimizer.lr=3e-2")  # fmt: skip
    ends = {entry["name"]: entry["step"] for entry in diagnoses(folder)}
    steps = json.loads((folder / "results.json").read_text())["steps"]
    assert steps < 200
    assert ends == {"short_translations": steps}


def test_sets_that_fine_tuning_made_worse_are_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def scored(bleu: float) -> SimpleNamespace:
        return SimpleNamespace(scores=SimpleNamespace(bleu=bleu))

    trainer = L.Trainer(default_root_dir=tmp_path, logger=False, barebones=True)
    results = {"valid": scored(50.0), "domain": scored(60.0), "general": scored(0.04), "new": scored(0.0)}
    module = SimpleNamespace(results=results, data=SimpleNamespace(sets=SimpleNamespace(validated=["valid"])))
    callback = Diagnosis(init_from="runs/old")
    callback.on_test_start(trainer, module)  # the test before fine-tuning
    callback.on_test_end(trainer, module)
    assert not (tmp_path / "diagnoses.jsonl").exists()
    before = {"valid": 40.0, "domain": 10.0, "general": 99.7}
    (tmp_path / "initial_scores.json").write_text(json.dumps({name: {"bleu": b} for name, b in before.items()}))
    for _ in range(2):
        callback.on_test_end(trainer, module)
    (entry,) = diagnoses(tmp_path)
    assert entry["name"] == "forgotten"
    assert "(general fell from BLEU 99.7 to 0.0)" in entry["message"]
    assert capsys.readouterr().err.count("Diagnosis: ") == 1


def write_pairs(folder: Path, *, cut: float) -> list[str]:
    """Write pairs of the built-in corpus, with some training targets cut to a third, and return the options."""
    rng, examples = random.Random(1), generate(seed=7, train=1_500, valid=60, test=1, long=1)
    for split in ("train", "valid"):
        for side in ("src", "tgt"):
            lines = [getattr(example, side).split() for example in examples[split]]
            if (split, side) == ("train", "tgt"):
                lines = [line[: len(line) // 3 + 1] if rng.random() < cut else line for line in lines]
            (folder / f"{split}.{side}").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    files = {split: f"[['{folder}/{split}.src','{folder}/{split}.tgt']]" for split in ("train", "valid")}
    return ["data=files", "data.test=null", *(f"data.{split}={value}" for split, value in files.items())]


@pytest.mark.full
@pytest.mark.parametrize(
    ("cut", "several", "said", "silent"),
    [
        (1.0, [], "short_targets", {"short_translations", "short_text"}),
        (1.0, ["data.both_directions=true"], "short_targets", {"short_translations", "does_not_translate"}),
        (0.0, [], None, {"short_translations", "short_targets", "short_text"}),
    ],
)
def test_cut_targets_are_the_cause_of_short_translations(
    run: Callable[..., Path], tmp_path: Path, cut: float, several: list[str], said: str | None, silent: set[str]
) -> None:
    options = [word for word in TINY if not word.startswith(("data.", "trainer.validate_every", "model."))]
    folder = run("cut", *write_pairs(tmp_path, cut=cut), *options, *several, "data.src_lang=en",
                 "data.tgt_lang=de", "model.d_embedding=32", "model.d_model=32", "batching.batch_tokens=300",
                 "trainer.max_epochs=null", "trainer.max_steps=400", "trainer.validate_every=100",
                 "schedule.warmup_steps=40", "optimizer.lr=5e-3", "schedule=inverse_sqrt",
                 "module.r_drop=0")  # fmt: skip
    names = {entry["name"] for entry in diagnoses(folder)} if (folder / "diagnoses.jsonl").exists() else set()
    assert said is None or said in names
    assert not silent & names


@pytest.mark.full
def test_a_learning_rate_that_is_too_high_is_the_cause(run: Callable[..., Path]) -> None:
    many = [word for word in TINY if not word.startswith(("trainer.validate_every", "data.train"))]
    folder = run("high", *many, "data.train=600", "trainer.max_steps=300", "trainer.validate_every=100",
                 "schedule.warmup_steps=20", "optimizer.lr=1.0")  # fmt: skip
    assert {"rising_loss", "high_learning_rate"} & {entry["name"] for entry in diagnoses(folder)}
