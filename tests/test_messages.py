"""What users type first and what heed answers (messages.toml); heed's words for options of other tools exist."""

import inspect
import logging
import shlex
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from lightning.pytorch.profilers import SimpleProfiler
from omegaconf import OmegaConf

import heed
from heed import options
from heed.cli import COMMANDS, build_parser, main
from heed.errors import HeedError
from heed.files import CONF
from heed.inference.searches import resolve_search
from heed.launch import HELP
from heed.launch.compose import compose, compose_with_hydra, option_names
from heed.launch.parts import build_parts
from heed.launch.plan import TYPICAL_PAIRS, settle_auto
from heed.options import exact, in_heed, read_habits
from heed.runs.checkpoints import Selection

ROWS = tomllib.loads(Path(__file__).with_name("messages.toml").read_text(encoding="utf-8"))["row"]
"""The shape of a row is in the first lines of the file."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of the rows, which leave the process as it was."""
    for run in "12":
        for name in ("model.safetensors", "config.yaml"):
            file = tmp_path / "runs" / "one" / run / "model" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    (tmp_path / "a.txt").touch()
    export = tmp_path / "runs/one/1/export/ctranslate2/model.bin"
    export.parent.mkdir(parents=True)
    export.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    GlobalHydra.instance().clear()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row.get("command") or row["python"] for row in ROWS])
def test_what_heed_answers(row: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if row.get("without_gpu") and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    before = sorted(folder.rglob("*"))
    if code := row.get("python"):
        with pytest.raises(HeedError) as raised:
            eval(code, {"heed": heed, "resolve_search": resolve_search})
        text = str(raised.value)
    else:
        status = main(shlex.split(row["command"])[1:])
        text = capsys.readouterr().err
        assert status == row.get("status", 2), text
    assert text.startswith(row["message"])
    assert "Traceback" not in text
    assert len(text.splitlines()) <= 4
    assert sorted(folder.rglob("*")) == before


# ---- heed's words exist

TABLE = tomllib.loads(Path(options.__file__).with_name("habits.toml").read_text(encoding="utf-8"))


def test_no_name_of_other_tools_is_in_two_rows_or_an_option_of_heed() -> None:
    for section, rows in TABLE.items():
        names = [name for row in rows for name in row.split()]
        assert len(names) >= 50, section
        assert {name for name in names if names.count(name) > 1} == set()
        assert [name for name in names if name != name.lower() or name.startswith("-")] == []
    assert not read_habits("commands").keys() & COMMANDS.keys()


@pytest.mark.slow
def test_heeds_options_for_those_of_other_tools_exist() -> None:
    """Options and choices exist in some composition, and the values of options are right."""
    composed = [compose_with_hydra([f"model={model}", "schedule=cosine"]) for model in ("transformer", "rnn")]
    known = {name for cfg in composed for name in option_names(OmegaConf.to_container(cfg))}
    values: dict[str, list[str]] = {"model=transformer": [], "model=rnn": [], "data=files": []}
    for names, text in TABLE["train"].items():
        if names.startswith("trainer.precision="):  # heed's words are values, in messages.toml
            continue
        words = [word for word in exact(text).split() if word not in ("and", "-m")]
        for word in words:
            name, _, value = word.lstrip("+").partition("=")
            if (CONF / name).is_dir():
                assert not value or (CONF / name / f"{value}.yaml").is_file(), (names, word)
                continue
            assert name in known or word.startswith("+trainer.") or f"  {word} " in HELP, (names, word)
            if value:
                base = next((word for word in words if word in values), "model=transformer")
                values[base] += [*(each for each in words if each.startswith("model/") and base == "model=rnn"), word]
    for base, overrides in values.items():
        own = [f"data.{split}=[[a.en,a.de]]" for split in ("train", "valid", "test") if base == "data=files"]
        config, _ = settle_auto(compose([base, *own, *dict.fromkeys(overrides)]).options, lambda: TYPICAL_PAIRS)
        if base != "data=files":
            build_parts(config)["trainer"](folder=Path(), selection=Selection("bleu"), callbacks=[], loggers=[])


def test_heeds_flags_and_commands_exist() -> None:
    parsers = build_parser()._subparsers._group_actions[0].choices.values()  # type: ignore[union-attr]
    arguments = {action.dest for parser in parsers for action in parser._actions}
    assert {word for words in TABLE["flags"].values() for word in words.split()} <= arguments
    assert {*TABLE["commands"].values()} <= COMMANDS.keys()


def test_each_argument_of_lightnings_trainer_works_or_has_heeds_word() -> None:
    # Options of heed, arguments that heed passes, and arguments with which Lightning does what it documents.
    own = {"accelerator", "strategy", "devices", "num_nodes", "precision", "max_epochs", "max_steps", "max_time"}
    passed = {"logger", "callbacks"}
    reached = {
        *("fast_dev_run", "min_steps", "limit_val_batches", "limit_test_batches", "limit_predict_batches", "profiler"),
        *("deterministic", "benchmark", "inference_mode", "detect_anomaly", "sync_batchnorm", "enable_autolog_hparams"),
        "model_registry",
    }
    for name in inspect.signature(L.Trainer).parameters.keys() - own - passed:
        words = in_heed(name)
        assert (not words or f"+trainer.{name}" in words) == (name in reached), name


def test_the_report_of_a_profiler_is_not_silenced(tmp_path: Path) -> None:
    config, _ = settle_auto(compose(["trainer=cpu", "+trainer.profiler=simple"]).options, lambda: TYPICAL_PAIRS)
    build = build_parts(config)["trainer"]
    trainer = build(folder=tmp_path, selection=Selection("bleu"), callbacks=[], loggers=[])
    assert isinstance(trainer.profiler, SimpleProfiler)
    assert logging.getLogger(SimpleProfiler.__module__).isEnabledFor(logging.INFO)
    assert not logging.getLogger("lightning.pytorch.trainer").isEnabledFor(logging.INFO)
