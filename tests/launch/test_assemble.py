"""The parts of a run in its first process and in the others."""

from pathlib import Path

import pytest
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import OmegaConf

from heed.launch.assemble import _build_trainer
from heed.launch.compose import compose
from heed.launch.configuration import build_parts
from heed.runs.selection import Selection


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_logs(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that drew wandb's id of the run at once would overwrite each other's."""
    monkeypatch.setattr(rank_zero_only, "rank", rank)
    cfg = compose(["trainer=cpu", "logger=wandb", "logger.wandb.mode=offline"], folder=tmp_path)
    config = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(config, dict)
    trainer = _build_trainer(build_parts(cfg), config, tmp_path, Selection(), [])  # type: ignore[arg-type]
    assert [type(logger).__name__ for logger in trainer.loggers] == ["WandbLogger"] * (rank == 0)
    assert (tmp_path / "wandb" / "id").exists() == (rank == 0)
