"""``match=``: an arm of a grid has the parameters, the time or the target tokens of the first arm."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from heed.errors import HeedError
from heed.launch.compose import compose
from heed.launch.derive import TOLERANCE, match_run, match_widths
from heed.launch.parts import build_model_on
from heed.launch.plan import check_options
from heed.models.seq2seq import ModelConfig
from heed.options import with_options
from tests import forkserver
from tests.finished import FinishedRun

TRAIN = Path(__file__).parents[2] / "train.py"
VOCABULARY: Any = {"src_vocab": 701, "tgt_vocab": 701, "joint": True}


@cache
def count(architecture: ModelConfig) -> int:
    return sum(weight.numel() for weight in build_model_on("meta", architecture, **VOCABULARY).parameters())


def architecture(*overrides: str) -> Any:
    return check_options(compose([*overrides]).options)[1]["model"]


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=transformer"],
        ["model=transformer", "model.num_heads=16", "model.decoder_layers=1"],
        ["model=transformer", "model/positions=rotary", "model.activation=swiglu"],
        ["model=rnn", "model.cell=gru", "model.layers=2"],
        ["model=rnn", "model/attention=additive", "model.bidirectional=false"],
    ],
)
def test_widths_give_the_parameters_of_another_model_within_the_tolerance(overrides: list[str]) -> None:
    before = architecture(*overrides)
    for params in (200_000, 9_876_543):
        found: Any = match_widths(before, params, count)
        assert abs(count(found) / params - 1) <= TOLERANCE
        assert found.d_model % before.width_multiple == 0
        ratios = [getattr(one, one.second_width) / one.d_model for one in (before, found)]
        assert ratios[1] == pytest.approx(ratios[0], rel=0.15)
        assert {**found.to_plain(), "d_model": 0, found.second_width: 0} == {
            **before.to_plain(), "d_model": 0, found.second_width: 0
        }  # fmt: skip


def test_the_widths_are_round_and_in_proportion_if_some_such_are_near_enough() -> None:
    before = architecture("model=transformer", "data=multi30k")
    wide = architecture("model=transformer", "data=multi30k", "model.d_model=512", "model.d_ff=1024")
    assert match_widths(before, count(wide), count) == wide
    assert match_widths(before, round(1.015 * count(before)), count) == before


def test_the_nearest_widths_are_returned_if_none_is_near_enough() -> None:
    found: Any = match_widths(architecture("model=transformer"), 100, count)
    assert (found.d_model, found.d_ff) == (4, 1)


def matched(finished: FinishedRun, *overrides: str) -> tuple[Any, Any]:
    given = compose(["model=transformer_tiny", f"match_to='{finished.folder}'", *overrides]).options
    match = match_run(given, Path("unused"), check_options(given)[1]["model"], lambda: VOCABULARY)
    return with_options(given, match["options"]), match


def test_a_run_gets_the_parameters_of_a_finished_run(finished: FinishedRun, capsys: pytest.CaptureFixture[str]) -> None:
    params = json.loads((finished.folder / "results.json").read_text())["params"]
    options, match = matched(finished, "match=params")
    assert abs(count(check_options(options)[1]["model"]) / params - 1) <= TOLERANCE
    assert match["options"] == {f"model.{name}": options["model"][name] for name in ("d_model", "d_ff")}
    assert (match["quantity"], match["run"]) == ("params", str(finished.folder))
    printed = capsys.readouterr().err
    assert (
        f"{params:,} parameters, as {finished.folder}: model.d_model={options['model']['d_model']} instead of 128"
        in printed
    )


def test_a_run_gets_the_tokens_and_the_time_of_a_finished_run(finished: FinishedRun) -> None:
    results = json.loads((finished.folder / "results.json").read_text())
    trainer = matched(finished, "match=tokens")[0]["trainer"]
    assert (trainer["max_steps"], trainer["max_epochs"]) == (results["steps"], None)
    trainer = matched(finished, "match=tokens", "batching.batch_tokens=125")[0]["trainer"]  # a quarter
    assert trainer["max_steps"] == 4 * results["steps"]
    trainer = matched(finished, "match=time", "trainer.max_epochs=3")[0]["trainer"]
    assert (trainer["max_steps"], trainer["max_epochs"]) == (None, None)
    assert trainer["max_time"] == f"00:00:00:{max(1, round(results['train_seconds'])):02}"


def test_the_first_job_of_a_grid_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "multirun.yaml").touch()
    (tmp_path / "0_rnn").mkdir()
    options = compose(["match=time", f"match_to='{tmp_path}'"]).options
    match = match_run(options, tmp_path / "0_rnn", architecture(), lambda: VOCABULARY)
    assert match == {"quantity": "time", "run": None, "options": {}}
    with pytest.raises(HeedError, match=r"match=time needs the results\.json of .*0_rnn: this run is not finished"):
        match_run(options, tmp_path / "1_rnn", architecture(), lambda: VOCABULARY)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["match=words"], "match=words is unknown: choose one of params, time, tokens."),
        (
            ["match=params", "match_to=null"],
            "match=params needs a run to match: train a grid (-m), or give match_to=RUN.",
        ),
        (["match=params", "model.num_heads=128"], "match=params: no width of this model gives"),
    ],
)
def test_what_cannot_be_matched_is_an_error(finished: FinishedRun, overrides: list[str], message: str) -> None:
    with pytest.raises(HeedError, match=re.escape(message)):
        matched(finished, *overrides)


@pytest.mark.full
def test_a_grid_with_equal_parameters_and_one_with_equal_tokens(tmp_path: Path) -> None:
    options = ["-m", "model=rnn,transformer_tiny", "data.train=60", "data.valid=6", "data.test=6", "data.long=3",
               "trainer=cpu", "trainer.max_steps=4", "trainer.validate_every=4", "trainer.log_every=2", "search=greedy",
               "logger=none", "callbacks.attention_maps=null", "model.d_model=32"]  # fmt: skip
    for name in ("params", "tokens"):
        done = forkserver.run(
            [sys.executable, TRAIN, *options, f"match={name}", f"name={name}"], cwd=tmp_path, capture_output=True,
            text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (grid,) = (tmp_path / "runs" / name).iterdir()
        first, second = (
            json.loads((grid / job / "results.json").read_text()) for job in ("0_rnn", "1_transformer_tiny")
        )
        assert (first["match"]["run"], second["match"]["run"]) == (None, str(grid / "0_rnn"))
        key = {"params": "params", "tokens": "tgt_tokens"}[name]
        assert second[key] == pytest.approx(first[key], rel=TOLERANCE if name == "params" else 0)
