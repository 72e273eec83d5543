"""Renamed options work by their old names on the command line, in presets and when an older run is resumed."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import OmegaConf

from heed.launch import renamed
from heed.launch.compose import compose
from heed.renamed import RENAMED, rename_warning
from heed.runs.config import read_config, write_config

TABLE = {"old_smoothing": "module.label_smoothing", "optimizer.rate": "optimizer.lr"}
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
    assert sys.argv == ["train.py", "-m", "module.label_smoothing=0,0.1", "++optimizer.lr=3"]
    assert capsys.readouterr().err.splitlines() == [
        "old_smoothing is now module.label_smoothing; the old name will stop working in the next release.",
        "optimizer.rate is now optimizer.lr; the old name will stop working in the next release.",
    ]


def test_presets_of_the_user(table: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nold_smoothing: 0.3\noptimizer:\n  rate: ${seed}\n"
    )
    for _ in range(2):
        cfg = compose(["experiment=mine", f"hydra.searchpath=[file://{tmp_path}]", "seed=7"])
        assert (cfg.module.label_smoothing, cfg.optimizer.lr) == (0.3, 7)
    # Each name once, however often the file is loaded.
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["old_smoothing", "optimizer.rate"]


def test_configs_of_older_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("heed.runs.config.RENAMED", TABLE)
    write_config(tmp_path, {"seed": 1, "old_smoothing": 0.1, "optimizer": {"rate": 2}})
    assert read_config(tmp_path) == {"seed": 1, "optimizer": {"lr": 2}, "module": {"label_smoothing": 0.1}}


OLD_VALUES = {
    "table_rate": "2.0",
    "label_smoothing": "0.2",
    "r_drop": "3.0",
    "embedding_lr_scale": "2.0",
    "clip_norm": "0.5",
    "max_skipped_steps": "7",
    "callbacks.log_every": "3",
    "callbacks.keep_best": "2",
    "callbacks.keep_last": "4",
    "callbacks.maps": "0",
    "callbacks.aer_sentences": "9",
    "callbacks.sample_translations": "0",
    "callbacks.early_stopping": "5",
    "callbacks.ema": "0.99",
    "logger.project": "mine",
    "logger.mode": "offline",
}
"""A value, other than the default, of each old option."""


@pytest.mark.parametrize("old", RENAMED)
@pytest.mark.slow
def test_every_old_name_composes_as_the_new_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str
) -> None:
    renamed._warn.cache_clear()
    value = OLD_VALUES[old]
    monkeypatch.setattr(sys, "argv", ["train.py", f"{old}={value}"])
    renamed.rename_command_line()
    assert capsys.readouterr().err.splitlines() == [rename_warning(old, RENAMED[old])]
    by_new_name = compose_run([f"{RENAMED[old]}={value}"])
    assert capsys.readouterr().err == ""
    assert compose_run(sys.argv[1:]) == by_new_name != compose_run([])


@pytest.mark.parametrize("old", RENAMED)
@pytest.mark.slow
def test_every_old_name_in_a_preset_composes_as_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str
) -> None:
    renamed._warn.cache_clear()
    for name, option in (("old", old), ("new", RENAMED[old])):
        preset: dict[str, Any] = {}
        node = preset
        *parents, key = option.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[key] = yaml.safe_load(OLD_VALUES[old])
        (tmp_path / "experiment").mkdir(exist_ok=True)
        (tmp_path / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(preset)}")
    search = f"hydra.searchpath=[file://{tmp_path}]"
    assert compose_run([search, "experiment=old"]) == compose_run([search, "experiment=new"]) != compose_run([])
    assert capsys.readouterr().err.splitlines() == [rename_warning(old, RENAMED[old])]


@pytest.mark.parametrize("word", ["callbacks.ema=null", "callbacks.early_stopping=null", "~callbacks.ema"])
def test_removing_a_callback_is_no_old_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", word])
    renamed.rename_command_line()
    assert sys.argv[1:] == [word]
    assert capsys.readouterr().err == ""
    name = word.strip("~").partition("=")[0].partition(".")[2]
    assert compose_run([word])["callbacks"].get(name) is None


def compose_run(overrides: list[str]) -> Any:
    return OmegaConf.to_container(compose(overrides))


TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=8",
        "model.d_model=8", "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2",
        "callbacks.attention_maps=null", "logger=none", "search=greedy", "weights=last",
        "hydra.run.dir=run"]  # fmt: skip


@pytest.mark.full
def test_a_run_by_old_names_and_its_resumption(command: Command) -> None:
    """The run that is resumed has a config.yaml as older versions wrote it."""
    renamed._warn.cache_clear()
    old = ["table_rate=2.0", "callbacks.log_every=1", "callbacks.ema=0.9", "callbacks.early_stopping=null"]
    status, err = command(*TINY, *old)
    assert status == 0, err
    for word in old[:3]:
        name = word.partition("=")[0]
        assert err.count(rename_warning(name, RENAMED[name])) == 1
    config: dict[str, Any] = yaml.safe_load(Path("run/config.yaml").read_text())
    module = config.pop("module")
    assert module["embedding_lr_scale"] == 2.0
    config |= {name: value for name, value in module.items() if not name.startswith("_")}
    config["table_rate"] = config.pop("embedding_lr_scale")
    config["callbacks"]["ema"] = 0.9
    config["logger"] = {"_target_": "heed.training.loggers.no_logger", "_partial_": True}
    write_config(Path("run"), config)
    Path("run/results.json").unlink()
    options = Path("run/.hydra/overrides.yaml").read_text()
    status, err = command(*TINY, *old[1:], "resume=true", "module.embedding_lr_scale=3.0")
    assert (status, "module.embedding_lr_scale must be as in" in err) == (2, True), err
    assert "To resume" not in err  # by the command that was refused
    assert Path("run/.hydra/overrides.yaml").read_text() == options
    status, err = command(*TINY, *old, "resume=true", "trainer.max_steps=4")
    assert status == 0, err
