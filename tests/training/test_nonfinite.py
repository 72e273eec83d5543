"""Steps that are not finite are skipped and counted; a run that diverges ends with an error and saves no NaN."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import lightning as L
import pytest
import torch
from torch import Tensor, nn

from heed.data.steps.batch import Batch
from heed.errors import HeedError
from heed.runs.records import read_csv
from heed.training.module import TranslationModule
from heed.training.muon import Muon
from heed.training.nonfinite import SkippedSteps, step_if_finite

ADAMW = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.1, "fused": True}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.1, **ADAMW),
    "muon": lambda groups: Muon(groups, lr=0.1, momentum=0.9, newton_schulz=5, **ADAMW),
    "sgd, fused": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.1, fused=True),
    "sgd, not fused": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.1),
}

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=transformer_tiny", "model.d_model=16",
        "model.d_ff=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1", "trainer=cpu",
        "trainer.precision=32-true", "batching.batch_tokens=100", "callbacks.attention_maps=null",
        "trainer.log_every=2", "trainer.validate_every=4", "trainer.max_steps=8"]  # fmt: skip


def states(optimizer: torch.optim.Optimizer) -> dict[Any, Any]:
    return copy.deepcopy(optimizer.state_dict()["state"])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_step_that_is_not_finite_changes_neither_weights_nor_state(kind: str, bad: float) -> None:
    def train(gradients: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], dict[Any, Any]]:
        torch.manual_seed(1)
        matrix, vector = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(5))
        optimizer = OPTIMIZERS[kind]([{"kind": "matrix", "params": [matrix]}, {"kind": "vector", "params": [vector]}])
        for for_matrix, for_vector in gradients:
            matrix.grad, vector.grad = for_matrix.clone(), for_vector.clone()
            finite = torch.stack([for_matrix.isfinite().all(), for_vector.isfinite().all()]).all()
            step_if_finite(optimizer, optimizer, finite, uses_grad_scaler=False)
        assert not hasattr(optimizer, "found_inf")
        return [matrix.detach(), vector.detach()], states(optimizer)

    torch.manual_seed(2)
    good = [(torch.randn(4, 6), torch.randn(5)) for _ in range(4)]
    bad_vector = (torch.randn(4, 6), torch.full((5,), bad))
    bad_matrix = (torch.full((4, 6), bad), torch.randn(5))
    weights, state = train([*good[:2], bad_vector, bad_matrix, *good[2:]])
    torch.testing.assert_close((weights, state), train(good), rtol=0, atol=0)


def test_skipped_steps_are_counted_in_total_and_consecutively() -> None:
    skipped = SkippedSteps(limit=3)
    for finite in (True, False, False, True, False):
        skipped.count(torch.tensor(finite))
    assert skipped.counts.tolist() == [3, 1]
    restored = SkippedSteps(limit=3)
    checkpoint: dict[str, Any] = {}
    checkpoints = SimpleNamespace(last=[Path("here.ckpt")])
    trainer = Mock(spec=L.Trainer, global_step=9, log_every_n_steps=3, checkpoint_callback=checkpoints)
    skipped.on_save_checkpoint(trainer, L.LightningModule(), checkpoint)
    restored.on_load_checkpoint(trainer, L.LightningModule(), checkpoint)
    restored.count(torch.tensor(False))
    assert restored.counts.tolist() == [4, 2]
    restored.on_train_batch_end(trainer)
    restored.count(torch.tensor(False))
    with pytest.raises(HeedError, match=r"up to step 9, 3 steps in a row .* ckpt_path='here\.ckpt'"):
        restored.on_train_batch_end(trainer)


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["muon", "adamw", "sgd"])
def test_a_run_survives_a_loss_that_is_not_finite(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    summed_loss = TranslationModule.summed_loss

    def infinite_at_step_two(self: TranslationModule, batch: Batch) -> tuple[Tensor, Tensor]:
        # An infinite loss with a finite gradient.
        loss, nll = summed_loss(self, batch)
        return (loss + torch.inf if self.global_step == 2 else loss), nll

    monkeypatch.setattr(TranslationModule, "summed_loss", infinite_at_step_two)
    folder = run("skipped", *TINY, f"optimizer={optimizer}", "optimizer.lr=1e-3")
    results = json.loads((folder / "results.json").read_text())
    assert (results["steps"], results["skipped_steps"]) == (8, 1)
    assert all(
        row["loss"] and "nan" not in row["loss"] and "inf" not in row["loss"]
        for row in read_csv(folder / "metrics.csv")[::3]
    )
    for checkpoint in (folder / "checkpoints").iterdir():
        weights = torch.load(checkpoint, weights_only=True)["state_dict"]
        assert all(tensor.isfinite().all() for tensor in weights.values())


@pytest.mark.full
def test_a_run_that_diverges_ends_with_an_error_and_without_a_checkpoint(
    command: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    good = [*TINY, "logger=none", "optimizer.lr=1e-3"]
    status, _ = command(*good, "hydra.run.dir=good")
    assert status == 0
    checkpoint = tmp_path / "good" / "checkpoints" / "last-0000008.ckpt"
    on = ["optimizer.lr=1e38", "trainer.max_steps=100", f"ckpt_path='{checkpoint}'"]

    # Divergence is found at a validation or, if none comes soon, by consecutive skipped steps.
    status, stderr = command(*good, *on, "hydra.run.dir=validated")
    assert status == 2
    assert "Training diverged: up to step 12, the validation loss is not finite." in stderr
    status, stderr = command(
        *good, *on, "hydra.run.dir=stepped", "trainer.validate_every=90", "module.max_skipped_steps=5"
    )
    assert status == 2
    assert "Training diverged: up to step 14, 5 steps in a row" in stderr
    assert "lower optimizer.lr" in stderr
    for name in ("validated", "stepped"):
        assert not (tmp_path / name / "results.json").exists()
        assert "Failed after" in (tmp_path / name / "report.html").read_text(encoding="utf-8")
        assert (tmp_path / name / "failure.txt").read_text().startswith("Training diverged: up to step 1")
        assert not list((tmp_path / name).glob("checkpoints/*"))

    # Options that change the training cannot change at a resume.
    (tmp_path / "good" / "results.json").unlink()
    status, stderr = command(*good, "trainer.max_steps=100", "hydra.run.dir=good", "resume=true", "schedule=constant")
    assert status == 2
    assert "schedule" in stderr


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd", "sgd optimizer.fused=false"])
def test_fp16_clips_unscaled_gradients(run: Callable[..., Path], optimizer: str) -> None:
    settings = [*TINY, *f"optimizer={optimizer}".split(), "optimizer.lr=1e-3", "module.clip_norm=0.5"]
    settings += ["trainer.log_every=1"]
    fp32 = run("fp32", *settings)
    fp16 = run("fp16", *settings, "trainer.precision=16-mixed")
    norms = [
        [float(row["grad_norm"]) for row in read_csv(folder / "metrics.csv") if row["grad_norm"]]
        for folder in (fp32, fp16)
    ]
    # Until GradScaler has found its scale, steps are skipped, and norms differ from those in fp32.
    skipped = json.loads((fp16 / "results.json").read_text())["skipped_steps"]
    assert skipped < 8
    assert norms[1][0] == pytest.approx(norms[0][0], rel=0.05) if not skipped else norms[1][-1] < 100 * norms[0][0]
    losses = [float(read_csv(folder / "metrics.csv")[-1]["valid_loss"]) for folder in (fp32, fp16)]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
