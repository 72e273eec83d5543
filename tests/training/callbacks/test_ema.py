"""The moving average of the weights by its formula and in real runs, and the checks of ``weights=``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import nn

from heed.cli import main as heed
from heed.data.steps.stream import StepShard
from heed.errors import HeedError
from heed.inference import model_folder
from heed.launch.compose import Command
from heed.launch.plan import check_options
from heed.runs.averaging import EMA_STATE, checkpoint_weights
from heed.runs.records import read_csv
from heed.training.callbacks.ema import EMA

SMALL = ["data=synthetic", "data.train=60", "data.valid=10", "data.test=6", "data.long=4", "batching.batch_tokens=100"]
SMALL += ["model=transformer", "model.d_model=16", "model.d_ff=16", "model.num_heads=2"]
SMALL += ["callbacks.attention_maps=null", "test=false", "search=greedy"]
SMALL += ["search.max_length_factor=0.0", "search.max_length_extra=4", "trainer=cpu", "trainer.precision=32-true"]
SMALL += ["trainer.max_epochs=null", "trainer.validate_every=2"]


@pytest.mark.parametrize("decay", [0.3, 0.6])
def test_the_average_is_a_weighted_sum_of_all_past_weights(decay: float) -> None:
    """The weight of step n is (1 − its decay) × all later decays. The decays of the warm-up are written out."""
    torch.manual_seed(0)
    trainer, module = L.Trainer(accelerator="cpu", barebones=True), L.LightningModule()
    module.model = nn.Linear(3, 2)
    callback = EMA(decay=decay)
    callback.on_fit_start(trainer, module)
    history = [module.model.weight.detach().double()]
    shard = StepShard(epoch=0, step=0, micro_batches=[], src_tokens=0, tgt_tokens=0, padded_tokens=0, last=False)
    for step in range(8):
        with torch.no_grad():
            module.model.weight.add_(torch.randn(2, 3))
        history.append(module.model.weight.detach().double())
        callback.on_train_batch_end(trainer, module, None, shard, step)
    decays = [min(decay, d) for d in (1 / 10, 2 / 11, 3 / 12, 4 / 13, 5 / 14, 6 / 15, 7 / 16, 8 / 17)]
    expected = torch.zeros(2, 3, dtype=torch.float64)
    for n, weights in enumerate(history):
        weight_of_n = 1 - decays[n - 1] if n else 1.0
        for later in decays[n:]:
            weight_of_n *= later
        expected += weight_of_n * weights
    torch.testing.assert_close(callback.state_dict()["weights"]["weight"].double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(module.model.weight.double(), history[-1])


def validations(folder: Path) -> list[tuple[int, float]]:
    rows = read_csv(folder / "metrics.csv")
    return [(int(row["step"]), float(row["valid_loss"])) for row in rows if row["valid_loss"]]


def checkpoint(folder: Path, kind: str) -> dict[str, Any]:
    path = max((folder / "checkpoints").glob(f"{kind}-*.ckpt"))
    return torch.load(path, map_location="cpu", weights_only=True)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.full
def test_validation_uses_the_average_resuming_continues_it_and_training_is_unchanged(run: Callable[..., Path]) -> None:
    ema = ["callbacks.ema.decay=0.6", "weights=ema", "trainer.keep_last=-1"]
    whole = run("whole", *SMALL, *ema, "trainer.max_steps=6")
    without = run("without", *SMALL, "weights=last", "trainer.max_steps=6")
    (fourth,) = whole.glob("checkpoints/last-*4.ckpt")
    resumed = run("resumed", *SMALL, *ema, "trainer.max_steps=6", f"ckpt_path='{fourth}'")

    assert same(checkpoint(whole, "last")["state_dict"], checkpoint(without, "last")["state_dict"])
    assert EMA_STATE not in checkpoint(without, "last")["callbacks"]
    assert checkpoint(whole, "last")["callbacks"][EMA_STATE]["steps"] == 6
    for part in (lambda c: c["state_dict"], lambda c: c["callbacks"][EMA_STATE]["weights"]):
        assert same(part(checkpoint(whole, "last")), part(checkpoint(resumed, "last")))
    assert validations(whole)[-1] == validations(resumed)[-1] != validations(without)[-1]

    # The model folder has the average of the best checkpoint. BLEU is 0.00 at every validation, so the loss decides.
    selected = min(validations(whole), key=lambda validation: validation[1])[0]
    best = whole / "checkpoints" / f"best-{selected:07d}.ckpt"
    kept = model_folder.load(whole).model.state_dict()
    assert same(kept, checkpoint_weights(best, ema=True))
    assert not same(kept, checkpoint_weights(best, ema=False))
    results = json.loads((whole / "results.json").read_text())
    assert (results["weights"], results["selected_step"]) == ("ema", selected)
    assert results["valid"]["loss"] == pytest.approx(dict(validations(whole))[selected], rel=1e-5)

    # ``heed average`` reads the average and the trained weights.
    assert heed(["average", str(whole), "--ema", "--out", str(whole / "again")]) == 0
    assert same(model_folder.load(whole / "again").model.state_dict(), kept)
    assert heed(["average", str(whole), "--last", "2", "--out", str(whole / "mean")]) == 0
    last_two = [checkpoint_weights(path, ema=False) for path in sorted(whole.glob("checkpoints/last-*.ckpt"))[-2:]]
    for name, tensor in model_folder.load(whole / "mean").model.state_dict().items():
        torch.testing.assert_close(tensor, (last_two[0][name] + last_two[1][name]) / 2)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["weights=bestt"], "weights=bestt is unknown: choose one of best, last, ema,"),
        (["weights=ema"], "set callbacks.ema.decay"),
        (["callbacks.ema.decay=0.99"], "weights=best does not use: choose weights=ema"),
        (["callbacks.ema.decay=0.99", "weights=average_best_k"], "weights=average_best_k does not use"),
        (["trainer.keep_best=0"], "trainer.keep_best=0 keeps none"),
        (["trainer.keep_best=0", "callbacks.ema.decay=0.9", "weights=ema"], "trainer.keep_best=0 keeps none"),
        (["trainer.keep_last=0"], "trainer.keep_last=0 must be -1 or an integer >= 1"),
        (["weights=average_last_k"], "set trainer.keep_last to 2 or more"),
        (["trainer.keep_best=1", "weights=average_best_k"], "set trainer.keep_best to 2 or more"),
    ],
)
def test_weights_that_no_checkpoint_will_have_are_refused(
    compose: Callable[..., Command], overrides: list[str], sentence: str
) -> None:
    with pytest.raises(HeedError, match=sentence.replace(".", r"\.")):
        check_options(compose(*overrides).options)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["weights=last"],
        ["weights=last", "trainer.keep_best=0"],
        ["weights=average_last_k", "trainer.keep_last=2"],
        ["weights=average_best_k"],
        ["weights=average_best_k", "trainer.keep_best=-1"],
        ["weights=ema", "callbacks.ema.decay=0.99", "trainer.keep_best=1"],
        ["weights=last", "callbacks.ema.decay=0.99"],
    ],
)
def test_weights_that_checkpoints_will_have_are_accepted(compose: Callable[..., Command], overrides: list[str]) -> None:
    check_options(compose(*overrides).options)
