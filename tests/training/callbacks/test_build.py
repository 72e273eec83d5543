"""The order of callbacks, and a callback of the user."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from lightning.pytorch.callbacks import Callback

from heed.runs.checkpoints import Selection
from heed.runs.records import read_csv
from heed.training.callbacks.checkpoints import Checkpoints
from heed.training.callbacks.ema import EMA
from heed.training.trainer import build_callbacks

TINY = ["data=synthetic", "data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn",
        "model.d_embedding=8", "model.d_model=8", "trainer=cpu", "trainer.max_steps=4", "trainer.validate_every=2",
        "logger=none", "search=greedy", "test=false"]  # fmt: skip

DRAWING = ("attention_maps", "sample_translations", "attention_heads")

MY_MODULE = """
import json
from pathlib import Path

from lightning.pytorch.callbacks import Callback


class MyCallback(Callback):
    def __init__(self, x: int, file: str = "mine.json") -> None:
        self.x, self.file, self.steps, self.norms = x, file, 0, []

    def setup(self, trainer, pl_module, stage):
        self.path = Path(trainer.default_root_dir) / self.file

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.steps += 1
        self.trained = float(sum(p.detach().norm() for p in pl_module.model.parameters()))

    def on_validation_end(self, trainer, pl_module):
        if trainer.sanity_checking or trainer.testing:
            return
        validated = float(sum(p.detach().norm() for p in pl_module.model.parameters()))
        self.norms.append([self.trained, validated])
        self.path.write_text(json.dumps({"x": self.x, "steps": self.steps, "norms": self.norms}))

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state_dict):
        self.steps = state_dict["steps"]
"""


def names(callbacks: list[Callback]) -> list[str]:
    return [type(callback).__name__ for callback in callbacks]


def test_the_average_comes_after_the_optional_callbacks_and_the_signals_last(tmp_path: Path) -> None:
    class Mine(Callback):
        pass

    checkpoints = Checkpoints(tmp_path, selection=Selection(), keep_best=1, keep_last=1)
    assert names(build_callbacks([EMA(decay=0.9), Mine()], checkpoints)) == [
        "MetricsLogger", "DecodingProgress", "FinalValidation", "Checkpoints", "Mine", "EMA", "StopOnSignal",
    ]  # fmt: skip


@pytest.mark.full
def test_a_callback_of_the_user(command: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """Its module is in the current folder. It sees the averaged weights at validations; checkpoints hold its state."""
    (tmp_path / "my_module.py").write_text(MY_MODULE)
    mine = ["+callbacks.mine._target_=my_module.MyCallback", "+callbacks.mine.x=1"]
    options = [*TINY, *mine, "callbacks.ema.decay=0.9", "weights=ema", "callbacks.early_stopping=null"]
    status, err = command(*options, "hydra.run.dir=run")
    assert status == 0, err
    seen = json.loads(Path("run/mine.json").read_text())
    assert (seen["x"], seen["steps"], len(seen["norms"])) == (1, 4, 2)
    assert all(trained != validated for trained, validated in seen["norms"])
    (checkpoint,) = Path("run/checkpoints").glob("last-*.ckpt")
    status, err = command(*options, "trainer.max_steps=6", f"ckpt_path={checkpoint}", "hydra.run.dir=more")
    assert status == 0, err
    assert json.loads(Path("more/mine.json").read_text())["steps"] == 6

    status, err = command(*options[:-1], "callbacks.mine.y=2")
    assert (status, "callbacks.mine.y" in err) == (2, True)
    status, err = command(*TINY, *mine, "+callbacks.mine.y=2")
    assert (status, "callbacks.mine.y is unknown" in err) == (2, True)


OFF = {
    "null": [f"callbacks.{name}=null" for name in (*DRAWING, "diagnosis")],
    "no sentences": [f"callbacks.{name}.sentences=0" for name in DRAWING],
    "no attention": ["model/attention=none", *(f"callbacks.{name}.sentences=6" for name in DRAWING)],
}


@pytest.mark.full
@pytest.mark.parametrize("off", OFF)
def test_callbacks_and_loggers_that_are_off_write_nothing(run: Callable[..., Path], off: str) -> None:
    folder = run("off", *TINY, *OFF[off], "callbacks.early_stopping.patience=null")
    assert not [path for name in ("attention", "log", "wandb") if (path := folder / name).exists()]
    assert (folder / "diagnoses.jsonl").exists() == (off != "null")
    assert json.loads((folder / "results.json").read_text())["alignment"] is None
    assert "alignment" not in yaml.safe_load((folder / "model" / "config.yaml").read_text())
    assert {row["valid_aer"] for row in read_csv(folder / "metrics.csv")} == {""}
