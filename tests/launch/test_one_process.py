"""What happens in one process of a run concerns all of them."""

import json
from pathlib import Path

import pytest
import torch

from tests.launch.test_elastic import finish, start

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
@pytest.mark.slow
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
