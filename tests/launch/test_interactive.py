"""`heed.train` from Python: the run of the command, twice in one process, with an interruption and its end."""

import signal
import sys
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from omegaconf import OmegaConf

import heed
from heed.launch.compose import expand_resume, quote
from tests.finished import FinishedRun
from tests.launch.test_command import FILES, write_pairs

INTERRUPT = "+callbacks.mine._target_=tests.launch.test_interactive.Interrupt"


class Interrupt(L.Callback):
    """Interrupts a run before its first step or, by default, after it."""

    def __init__(self, steps: int = 1) -> None:
        self.steps = steps
        self.is_resumed = False

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.is_resumed = True

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == self.steps and not self.is_resumed:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_run_is_interrupted_and_continued_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    argv, handler = list(sys.argv), signal.getsignal(signal.SIGINT)
    preset = tmp_path / "my_conf" / "experiment" / "mine.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\nseed: 7\n")
    with pytest.raises(KeyboardInterrupt):
        heed.train("--config-dir=my_conf", "experiment=mine", *FILES, INTERRUPT, name="a b", trainer="cpu")
    (folder,) = (tmp_path / "runs" / "a b").iterdir()
    assert f"To resume: heed train 'resume={folder}'" in capsys.readouterr().err
    assert (sys.argv, signal.getsignal(signal.SIGINT)) == (argv, handler)
    assert repr(heed.TrainedRun(folder)) == f"<TrainedRun {folder}: unfinished>"
    run = heed.train(resume=folder)
    assert run.path == folder
    assert (run.results["steps"], run.results["seed"]) == (2, 7)
    assert repr(run).startswith(f"<TrainedRun {folder}: transformer, {run.results['params']:,} parameters, valid BLEU ")
    assert len(run.load(device="cpu").translate(["a b"])) == 1
    assert "few_steps" in run.diagnoses or "step_size" in run.diagnoses
    assert all(sentence.endswith(".") for sentence in run.diagnoses.values())
    curves = run.curves()
    assert curves["step"][-1] == 2
    assert np.isfinite(curves["valid_bleu"]).sum() == 1
    assert heed.TrainedRun(str(folder)).results == run.results


@pytest.mark.slow
def test_a_run_interrupted_before_its_first_step_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        heed.train(*FILES, INTERRUPT, "+callbacks.mine.steps=0", schedule="inverse_sqrt", name="early", trainer="cpu")
    (folder,) = (tmp_path / "runs" / "early").iterdir()
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["last-0000000.ckpt"]
    assert heed.train(resume=folder).results["steps"] == 2
    assert "The learning rate goes on" not in capsys.readouterr().err


def test_check_returns_the_lines_of_the_command_and_leaves_the_process_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    argv, handler = list(sys.argv), signal.getsignal(signal.SIGINT)
    lines = heed.check(*FILES, lines="faults.tsv", write=tmp_path / "kept", **{"model.dropout": 0.9})
    assert lines[0].startswith("Data:")
    assert any(line.startswith("model.dropout=0.9 removes most") for line in lines)
    assert any(line.startswith("a.xx and a.yy") for line in lines)
    assert (tmp_path / "faults.tsv").read_text(encoding="utf-8").startswith("text\tline\tfault\n")
    assert len(list((tmp_path / "kept").iterdir())) == 2
    assert (sys.argv, signal.getsignal(signal.SIGINT)) == (argv, handler)
    assert not (tmp_path / "runs").exists()
    with pytest.raises(heed.HeedError, match=r"nowhere\.xx"):
        heed.check(*FILES, **{"data.train": [["nowhere.xx", "a.yy"]]})


def test_a_mistake_is_a_heed_error_with_the_message_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        heed.HeedError, match=r"^modle is unknown \(did you mean module or model\?\): `heed train --cfg"
    ):
        heed.train(modle="rnn")
    with pytest.raises(heed.HeedError, match="resume=nowhere names no run: give its folder"):
        heed.train(resume="nowhere")
    assert not (tmp_path / "runs").exists()


VALUES = [
    None, True, 3, 0.5, "rnn", "a b", "it's", "\\", "a\\'b\\\\", "${x}", "\\${x}'s", ["a\\\\${x}"],
    "[a,b]", [["a's.en", "b.de"], [1, None]], "",
    {"typos": 0.1, "own": {"files": [["a's.en", "b.de"]]}},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_values_are_those_that_hydra_reads(value: Any) -> None:
    (override,) = OverridesParser.create().parse_overrides([f"x={quote(value)}"])
    config = OmegaConf.create({"x": _plain(override.value())})
    assert OmegaConf.to_container(config, resolve=True) == {"x": value}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.text if isinstance(value, QuotedString) else value


def test_a_run_in_a_folder_with_an_apostrophe_is_resumed(finished: FinishedRun, tmp_path: Path) -> None:
    run = tmp_path / "Ann's runs"
    (run / ".hydra").mkdir(parents=True)
    for name in ("hydra.yaml", "overrides.yaml"):
        (run / ".hydra" / name).write_bytes((finished.folder / ".hydra" / name).read_bytes())
    for word in (f"resume={run}", f"resume={quote(run)}"):
        parsed = OverridesParser.create().parse_overrides(expand_resume([word])[-2:])
        assert [override.value() for override in parsed] == [str(run), True]


def test_resume_with_a_folder_stands_for_the_options_of_the_run(finished: FinishedRun) -> None:
    words = expand_resume([f"resume={finished.folder}", "trainer.max_steps=9"])
    assert words[-2:] == [f"hydra.run.dir='{finished.folder}'", "resume=true"]
    assert "trainer.max_steps=9" in words
    assert "trainer.max_steps=4" not in words
    assert "model=rnn" in words
    assert expand_resume(["resume=True", "model=rnn"]) == ["resume=True", "model=rnn"]


def test_a_run_of_thousands_of_files_is_resumed(finished: FinishedRun, tmp_path: Path) -> None:
    (tmp_path / ".hydra").mkdir()
    job = (finished.folder / ".hydra" / "hydra.yaml").read_text(encoding="utf-8")
    files = "".join(f"# data/text-{number}.en\n" for number in range(20_000))
    (tmp_path / ".hydra" / "hydra.yaml").write_text(job + files, encoding="utf-8")
    assert expand_resume([f"resume={tmp_path}"])[-1] == "resume=true"
