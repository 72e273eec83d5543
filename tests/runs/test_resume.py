"""Which run resume=true continues, and with which options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.launch.compose import Command
from heed.launch.plan import settle_precision
from heed.options import with_options
from heed.run_format import RUN_FORMAT
from heed.runs.checkpoints import FORMAT_KEY
from heed.runs.config import read_config, write_config
from heed.runs.folder import (
    RunFolder,
    adopt_checkpoint,
    check_resumable,
    create,
    newest_unfinished,
    starting_checkpoint,
)
from tests.finished import FinishedRun

NOW = "2026-11-23_12-00-00"


def test_the_eleventh_folder_of_a_second_is_newer_than_the_second_one(tmp_path: Path) -> None:
    folders = [create(tmp_path, NOW) for _ in range(11)]
    for folder in folders:
        (folder / "checkpoints").mkdir()
    assert newest_unfinished(tmp_path) == folders[-1]
    (folders[-1] / "results.json").touch()
    assert newest_unfinished(tmp_path) == folders[-2]


def test_without_an_unfinished_run_there_is_nothing_to_resume(tmp_path: Path) -> None:
    create(tmp_path, NOW)  # no checkpoint yet
    with pytest.raises(HeedError, match="no unfinished run"):
        newest_unfinished(tmp_path)
    with pytest.raises(HeedError, match="no unfinished run"):
        newest_unfinished(tmp_path / "nowhere")


HARMLESS = {
    "trainer": {
        "devices": 2, "num_nodes": 2, "strategy": "ddp", "log_every": 1, "accelerator": "gpu", "max_steps": 9,
        "max_epochs": None, "max_time": "00:01:00:00",
    },
    "logger": {"csv": {}}, "callbacks": {"attention_maps": None, "diagnosis": None}, "name": "other", "resume": True,
    "data": {"preparation": {"num_proc": 1}}, "batching": {"device_tokens": 99},
}  # fmt: skip
HARMFUL = {
    "trainer.precision": "bf16-mixed", "trainer.validate_every": 7, "trainer.keep_best": 2, "trainer.keep_last": 2,
    "callbacks.early_stopping.patience": 3, "callbacks.ema.decay": 0.5, "batching.pool": 99,
}  # fmt: skip


def test_a_resumed_run_may_change_what_changes_no_result(compose: Callable[..., Command], tmp_path: Path) -> None:
    before = compose("trainer.precision=32-true", "callbacks.ema.decay=0.9", "weights=ema").options
    write_config(tmp_path, before)
    now: Any = OmegaConf.to_container(OmegaConf.merge(OmegaConf.create(before), HARMLESS))
    assert starting_checkpoint(tmp_path, now) is None
    write_config(tmp_path, {**before, "ckpt_path": "other/best.ckpt"})
    folder = RunFolder(tmp_path, now)
    assert folder.open() is None
    assert folder.config["ckpt_path"] == read_config(tmp_path)["ckpt_path"] == "other/best.ckpt"
    for option, value in HARMFUL.items():
        with pytest.raises(HeedError, match=f"resume=true: {option} must be as in .*config.yaml"):
            starting_checkpoint(tmp_path, with_options(now, {option: value}))


def test_a_resumed_run_keeps_the_precision_of_the_machine_where_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(precision: Any, before: Any = None, *, fast_bf16: bool) -> Any:
        monkeypatch.setattr("heed.training.trainer.has_fast_bf16_matmul", lambda: fast_bf16)
        options = {"trainer": {"accelerator": "cpu", "precision": precision}}
        return settle_precision(options, before)["trainer"]["precision"]

    assert chosen("auto", fast_bf16=True) == "bf16-mixed"
    assert chosen("auto", fast_bf16=False) == "32-true"
    assert chosen(32, fast_bf16=True) == "32-true"
    before = {"trainer": {"precision": "bf16-mixed"}}
    assert chosen("auto", before, fast_bf16=False) == "bf16-mixed"
    assert chosen("32-true", before, fast_bf16=True) == "32-true"  # which is refused


def test_a_checkpoint_of_another_tokenizer_or_optimizer_or_without_progress_is_refused() -> None:
    def check(**changes: Any) -> None:
        checkpoint = {
            FORMAT_KEY: RUN_FORMAT,
            "state_dict": {"w": torch.zeros(2)},
            "tokenizer": "abc",
            "optimizer": "AdamW",
            "loops": {"fit_loop": {"epoch": {"total": 1}}},
        }
        this_run = {"tokenizer": "abc", "optimizer": "AdamW", "progress": {"epoch": {"total": 0}}}
        check_resumable(checkpoint | changes, Path("a.ckpt"), weights={"w": torch.ones(2)}, **this_run)  # type: ignore[arg-type]

    check()
    for changes, message in (
        ({FORMAT_KEY: 1}, "another version of heed"),
        ({"state_dict": {"w": torch.zeros(3)}}, "another architecture"),
        ({"tokenizer": "other"}, "another tokenizer"),
        ({"optimizer": "Muon"}, "the optimizer state of Muon, which AdamW cannot use"),
        ({"loops": {"fit_loop": {"state_dict": {}}}}, "does not contain the training progress"),
    ):
        with pytest.raises(HeedError, match=f"^a.ckpt .*{message}"):
            check(**changes)


@pytest.mark.parametrize(("is_mixture", "cursor"), [(False, (2, 7)), (True, (0, 57))])
def test_a_new_run_does_not_inherit_the_best_validations(is_mixture: bool, cursor: tuple[int, int]) -> None:
    callbacks = {"Checkpoints": {"scores": {}}, "EarlyStopping": {"waited": 3}, "Mine": {"steps": 4}}
    data = {"epoch": 2, "step": 7, "digests": {}}
    checkpoint: dict[str, Any] = {"callbacks": callbacks, "TranslationData": data, "global_step": 57}
    adopt_checkpoint(checkpoint, is_mixture=is_mixture)
    assert checkpoint["callbacks"] == {"Mine": {"steps": 4}}
    assert (data["epoch"], data["step"]) == cursor


def test_the_names_of_these_states_are_those_of_a_checkpoint(finished: FinishedRun) -> None:
    (file,) = (finished.folder / "checkpoints").glob("last-*.ckpt")
    checkpoint = torch.load(file, weights_only=True)
    assert checkpoint["global_step"] == 4
    assert {"epoch", "step"} <= checkpoint["TranslationData"].keys()
    before = {*checkpoint["callbacks"]}
    adopt_checkpoint(checkpoint, is_mixture=False)
    assert before - {*checkpoint["callbacks"]} == {"Checkpoints", "EarlyStopping"}
