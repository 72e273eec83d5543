"""Runs that cannot do what their options say, and the parts of a run in its first process and in the others."""

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from heed.errors import HeedError
from heed.launch import finish
from heed.launch.compose import compose
from heed.launch.plan import settle
from heed.launch.run import _build_trainer, _require_room
from heed.runs.checkpoints import Selection
from tests.launch.test_command import FILES, write_pairs

Command = Callable[..., tuple[int, str]]


def test_an_lstm_in_fp16_on_a_cpu_is_refused_before_data_is_read(command: Command) -> None:
    missing = [f"data.{split}=[[no.xx,no.yy]]" for split in ("train", "valid", "test")]
    languages = ("data.src_lang=xx", "data.tgt_lang=yy")
    status, err = command("model=rnn", "data=files", *missing, *languages, "trainer=cpu", "trainer.precision=16-mixed")
    assert status == 2
    assert "train.py: trainer.precision=16-mixed cannot train model.cell=lstm on a CPU: choose" in err


@pytest.mark.parametrize("strategy", ["fsdp", "deepspeed_stage_2"])
def test_strategies_that_split_a_model_are_refused(command: Command, tmp_path: Path, strategy: str) -> None:
    write_pairs(tmp_path)
    status, err = command("trainer=cpu", *FILES, f"trainer.strategy={strategy}")
    assert status == 2
    assert f"trainer.strategy={strategy} is not supported: heed's models fit on one device, so use" in err


@pytest.mark.full
def test_a_checkpoint_at_max_steps_cannot_be_trained_further(command: Command, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    options = ("trainer=cpu", *FILES)
    status, err = command(*options, "hydra.run.dir=one")
    assert status == 0, err
    (checkpoint,) = (tmp_path / "one" / "checkpoints").glob("last-*.ckpt")
    status, err = command(*options, "hydra.run.dir=two", f"ckpt_path='{checkpoint}'")
    assert status == 2
    assert f"{checkpoint} is already at step 2 of trainer.max_steps=2: raise trainer.max_steps" in err
    status, err = command(*options, "hydra.run.dir=two", f"ckpt_path='{checkpoint}'", "trainer.max_steps=4")
    assert status == 0, err
    options = (*options, "trainer.max_steps=null", "trainer.max_time=00:00:00:01")
    status, err = command(*options, "hydra.run.dir=three")
    assert status == 0, err
    checkpoint = max((tmp_path / "three" / "checkpoints").glob("last-*.ckpt"))
    status, err = command(*options, "hydra.run.dir=four", f"ckpt_path='{checkpoint}'")
    assert status == 2
    assert "of trainer.max_time=00:00:00:01: raise trainer.max_time" in err


def test_too_little_room_for_a_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = torch.nn.Linear(10**6, 1, bias=False)
    sgd = torch.optim.SGD
    for optimizer, moments in ((torch.optim.AdamW, 2), (sgd, 0), (partial(sgd, lr=0.1, momentum=0.9), 1)):
        module: Any = SimpleNamespace(
            parameters=model.parameters, configure_optimizers=lambda optimizer=optimizer: optimizer(model.parameters())
        )
        for has_average in (False, True):
            needed = 4 * 10**6 * (1 + moments + has_average)
            monkeypatch.setattr(shutil, "disk_usage", lambda _, free=needed: SimpleNamespace(free=free))
            _require_room(tmp_path, module, has_average=has_average)
            monkeypatch.setattr(shutil, "disk_usage", lambda _, free=needed - 1: SimpleNamespace(free=free))
            with pytest.raises(HeedError, match=f"a checkpoint of this model needs about {needed // 10**6} MB: make"):
                _require_room(tmp_path, module, has_average=has_average)


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_logs(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that drew wandb's id of the run at once would overwrite each other's."""
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    wandb = ["logger=wandb", "logger.wandb.mode=offline"]
    plan = settle(compose(["trainer=cpu", *wandb, "trainer.max_epochs=1", "batching.batch_tokens=9"]))
    trainer = _build_trainer(plan, tmp_path, Selection(), [])
    assert [type(logger).__name__ for logger in trainer.loggers] == ["StepLogger"] * (rank == 0)
    assert (tmp_path / "wandb" / "id").exists() == (rank == 0)


def test_the_commit_is_of_the_repository_of_heed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    (tmp_path / ".venv").mkdir()
    for clone, is_own in ((tmp_path, True), (tmp_path / ".venv", False)):
        monkeypatch.setattr(finish, "__file__", str(clone / "src/heed/launch/finish.py"))
        assert (finish._git_commit() is not None) == is_own
