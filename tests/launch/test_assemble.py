"""The parts of a run in its first process and in the others."""

from pathlib import Path

import pytest

from heed.launch.compose import compose
from heed.launch.configuration import dry_run
from heed.launch.run import _build_trainer
from heed.runs.selection import Selection


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_logs(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that drew wandb's id of the run at once would overwrite each other's."""
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    config, parts = dry_run(compose(["trainer=cpu", "logger=wandb", "logger.wandb.mode=offline"], folder=tmp_path))
    trainer = _build_trainer(config, parts, tmp_path, Selection(), [])
    assert [type(logger).__name__ for logger in trainer.loggers] == ["WandbLogger"] * (rank == 0)
    assert (tmp_path / "wandb" / "id").exists() == (rank == 0)
