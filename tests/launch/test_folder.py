"""The folder of a run: how it is claimed, what Hydra finds there, and what is printed and kept when the run fails."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.launch.compose import Command
from heed.launch.processes import claim_folder, report_on_failure
from heed.run_format import RunFormatError
from heed.training.nonfinite import DivergedError
from tests.finished import OPTIONS, FinishedRun


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder as it is before training starts."""
    run = tmp_path / "a run"
    (run / "wandb").mkdir(parents=True)
    for name in ("config.yaml", ".lock", "wandb/id"):
        (run / name).touch()
    return run


def test_a_run_with_checkpoints_can_be_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "checkpoints").mkdir()
    for step in (2, 10):
        (folder / "checkpoints" / f"last-{step:07d}.ckpt").touch()
    monkeypatch.setattr("sys.executable", "/usr/bin/python")
    monkeypatch.setattr("sys.argv", ["train.py", "model=rnn", "ckpt_path=x.ckpt", "resume=false", "hydra.run.dir=y"])
    report_on_failure(folder, RuntimeError(), resumed=False, is_new=True)
    assert capsys.readouterr().err == (
        f"The last checkpoint is {folder}/checkpoints/last-0000010.ckpt. To resume: python train.py 'resume={folder}'\n"
    )
    monkeypatch.setattr("sys.argv", ["heed train", "model=rnn", "resume=true"])
    report_on_failure(folder, RuntimeError(), resumed=False, is_new=True)
    assert capsys.readouterr().err.endswith(f"To resume: heed train 'resume={folder}'\n")
    for error in (DivergedError.__new__(DivergedError), RunFormatError("x")):
        report_on_failure(folder, error, resumed=False, is_new=True)
        assert capsys.readouterr().err == ""
    report_on_failure(folder, HeedError("x"), resumed=True, is_new=True)
    assert capsys.readouterr().err == ""
    report_on_failure(folder, HeedError("x"), resumed=False, is_new=True)
    assert "To resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "kept"),
    [(None, []), ("notes.txt", ["notes.txt"]), ("metrics.csv", [".lock", "config.yaml", "metrics.csv", "wandb"])],
)
def test_the_folder_of_a_run_that_wrote_nothing_is_removed(
    file: str | None, kept: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if file is not None:
        (folder / file).touch()
    report_on_failure(folder, RuntimeError(), resumed=False, is_new=True)
    assert sorted(path.name for path in folder.glob("*")) == kept
    assert folder.exists() == bool(kept)
    assert capsys.readouterr().err == (f"{folder} holds no checkpoint to resume from.\n" if kept else "")


@pytest.mark.parametrize("given", [True, False])
def test_a_given_folder_is_used_as_it_is(
    compose: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "runs" / "x"
    with claim_folder(compose("name=x", *["folder=runs/x"] * given)) as folder:
        assert (folder if given else folder.parent) == home
        (folder / "results.json").touch()
    if given:
        with (
            pytest.raises(HeedError, match="runs/x already holds a run"),
            claim_folder(compose("name=x", "hydra.run.dir=runs/x")),
        ):
            pass


@pytest.mark.parametrize(
    ("content", "message"), [("seed: 1\n", "a bug"), ("model: rnn\n", "does not belong"), ("[", "does not belong")]
)
def test_a_failed_start_keeps_the_files_of_a_given_folder(
    compose: Callable[..., Command], tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises((HeedError, RuntimeError), match=message), claim_folder(compose(folder=tmp_path)):
        raise RuntimeError("a bug")
    assert (tmp_path / "config.yaml").read_text() == content


def test_a_folder_with_a_best_checkpoint_holds_a_run(compose: Callable[..., Command], tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best-0000010.ckpt").touch()
    with pytest.raises(HeedError, match="already holds a run"), claim_folder(compose(folder=tmp_path)):
        pass


def test_the_folder_of_a_failed_start_is_removed(compose: Callable[..., Command], tmp_path: Path) -> None:
    """On Windows, a held lock cannot be removed."""
    with pytest.raises(RuntimeError), claim_folder(compose(folder=tmp_path / "run")):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_run_has_hydras_files(finished: FinishedRun) -> None:
    (line,) = (line for line in finished.printed.splitlines() if line.startswith("Options:"))
    assert line.startswith("Options:  data.train=60 data.valid=20 "), line
    folder = finished.folder
    names = ["config.yaml", "hydra.yaml", "overrides.yaml"]
    assert sorted(path.name for path in (folder / ".hydra").iterdir()) == names
    cache = f"cache_dir={folder.parents[2]}/cache"
    assert yaml.safe_load((folder / ".hydra/overrides.yaml").read_text()) == [*OPTIONS, cache]
    # Composed, not resolved; config.yaml of the run is resolved and settled.
    composed = OmegaConf.load(folder / ".hydra/config.yaml")
    assert OmegaConf.to_container(composed)["data"]["cache_dir"] == "${cache_dir}"
    assert composed.trainer.precision == "auto"
    assert yaml.safe_load((folder / "config.yaml").read_text())["trainer"]["precision"] != "auto"
    hydra = OmegaConf.load(folder / ".hydra/hydra.yaml")
    assert hydra.hydra.runtime.output_dir == str(folder)
    assert hydra.hydra.runtime.choices.model == "rnn"
