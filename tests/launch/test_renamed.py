"""Renamed options work by their old names on the command line, in presets and when an older run is resumed."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra

from heed.launch import renamed
from heed.launch.schema import CONF, Schema
from heed.renamed import RENAMED
from heed.runs.config import read_config, write_config

TABLE = {"old_smoothing": "label_smoothing", "optimizer.rate": "optimizer.lr"}
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Apply `TABLE` to config files during the test."""
    monkeypatch.setattr(ConfigLoaderImpl, "_load_single_config", ConfigLoaderImpl._load_single_config)
    renamed._warn.cache_clear()
    renamed.rename_in_presets(TABLE)
    yield TABLE
    renamed._warn.cache_clear()


def test_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    renamed._warn.cache_clear()
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "old_smoothing=0,0.1", "++optimizer.rate=3"])
    renamed.rename_command_line(TABLE)
    assert sys.argv == ["train.py", "-m", "label_smoothing=0,0.1", "++optimizer.lr=3"]
    assert capsys.readouterr().err.splitlines() == [
        "old_smoothing is now label_smoothing; the old name will stop working in the next release.",
        "optimizer.rate is now optimizer.lr; the old name will stop working in the next release.",
    ]


def test_presets_of_the_user(table: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nold_smoothing: 0.3\noptimizer:\n  rate: ${seed}\n"
    )
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for _ in range(2):
            cfg = compose("train", ["experiment=mine", f"hydra.searchpath=[file://{tmp_path}]", "seed=7"])
            assert (cfg.label_smoothing, cfg.optimizer.lr) == (0.3, 7)
    # Each name once, however often the file is loaded.
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["old_smoothing", "optimizer.rate"]


def test_configs_of_older_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("heed.runs.config.RENAMED", TABLE)
    write_config(tmp_path, {"seed": 1, "old_smoothing": 0.1, "optimizer": {"rate": 2}})
    assert read_config(tmp_path) == {"seed": 1, "optimizer": {"lr": 2}, "label_smoothing": 0.1}


TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=8",
        "model.d_model=8", "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "callbacks.maps=0",
        "logger=none", "search=greedy", "weights=last", "hydra.run.dir=run"]  # fmt: skip


@pytest.mark.skipif(
    "embedding_lr_scale" not in {field.name for field in fields(Schema)}, reason="the option has not been renamed yet"
)
def test_table_rate_is_embedding_lr_scale(command: Command) -> None:
    """A whole run by the old name, and its resumption with a config.yaml that has the old name."""
    assert RENAMED["table_rate"] == "embedding_lr_scale"
    renamed._warn.cache_clear()
    status, err = command(*TINY, "table_rate=2.0")
    assert status == 0, err
    assert err.count("table_rate is now embedding_lr_scale; the old name will stop working in the next release.") == 1
    config: dict[str, Any] = read_config(Path("run"))
    assert config["embedding_lr_scale"] == 2.0
    config["table_rate"] = config.pop("embedding_lr_scale")
    write_config(Path("run"), config)
    Path("run/results.json").unlink()
    status, err = command(*TINY, "resume=true", "embedding_lr_scale=3.0")
    assert (status, "embedding_lr_scale must be as in" in err) == (2, True), err
    status, err = command(*TINY, "resume=true", "table_rate=2.0")
    assert status == 0, err
