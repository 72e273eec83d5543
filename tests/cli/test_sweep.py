"""``heed sweep``: the table of a study, its page, and errors as one sentence."""

import re
import sys
from pathlib import Path

import optuna
import pytest

from tests.cli.models import Heed, Refused
from tests.report.html import Page
from tests.sweep.conftest import quiet_optuna as quiet_optuna
from tests.sweep.studies import make_study, make_trial, write_verdict

PLAIN = {"optimizer.lr": 1e-3, "model.dropout": 0.2}
OTHER = {"optimizer.lr": 1e-3, "model.dropout": 0.3}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of three complete trials, a pruned and a failed one."""
    trials = [
        make_trial(PLAIN, 30.0, curve={500: 29.0}, minutes=12),
        make_trial(OTHER, 32.5, curve={500: 31.0}, minutes=13),
        make_trial({**OTHER, "model.dropout": 0.1}, 31.0, curve={500: 30.0}),
        make_trial({**OTHER, "model.dropout": 0.4}, 9.0, state="PRUNED", curve={50: 9.0}, minutes=1.5),
        make_trial({**OTHER, "model.dropout": 0.15}, state="FAIL", reason="Out of memory.", minutes=0.5),
    ]
    make_study(tmp_path / "small", trials=trials, n_trials=6)
    return tmp_path / "small"


def test_table_and_page(heed: Heed, study: Path) -> None:
    status, out, err = heed("sweep", study)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "small: 4 of 6 trials (3 complete, 1 pruned), 1 failed; no worker is running",
        "Trial 1 is best so far: valid.bleu 32.50.",
        "Every score is of one seed: small differences between trials may be chance.",
        "",
        "trial  state     valid.bleu  dropout  steps  minutes  reason",
        "    1  complete       32.50      0.3    500     13.0",
        "    2  complete       31.00      0.1    500     10.0",
        "    0  complete       30.00      0.2    500     12.0",
        "    3  pruned        (9.00)      0.4     50      1.5",
        "    4  failed                   0.15             0.5  Out of memory.",
        f"Page: {study / 'sweep.html'}",
    ]
    page = Page((study / "sweep.html").read_text(encoding="utf-8"))
    assert page.find("h1")[0].text == "Trial 1 is best so far: valid.bleu 32.50."


def test_verdict_and_the_command_that_repeats_it(heed: Heed, study: Path, tmp_path: Path) -> None:
    loaded = optuna.load_study(study_name="small", storage=f"sqlite:///{study / 'study.db'}")
    write_verdict(loaded, {1: [31.0, 33.0], 2: [30.0, 32.0]}, comparison=["No significant difference."])
    status, out, _ = heed("sweep", study, "--top", 1, "--html", tmp_path / "page.html")
    assert status == 0
    lines = out.splitlines()
    assert lines[1] == "Trial 1 wins: valid.bleu 32.00 ± 1.41 over 2 seeds."
    assert lines[2] == "No significant difference."
    assert "Repeat the winner: python train.py experiment=small seed=2" in lines
    # The best trial and the one that failed.
    assert [line.split()[0] for line in lines if re.match(" +[0-9]", line)] == ["1", "4"]
    assert lines[-2:] == ["… and 3 more: --top 5", f"Page: {tmp_path / 'page.html'}"]
    assert "experiment=small seed=2" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not (study / "sweep.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tmp}/nowhere"], "There is no study {tmp}/nowhere/study.db: give its folder"),
        (["{tmp}/small", "--top", "0"], "--top 0 must be at least 1"),
        (["{tmp}/small", "--html", "{tmp}/no/page.html"], "page.html cannot be written: No such file"),
        (["{tmp}/small", "--html", "{tmp}"], "is a folder"),
    ],
)
def test_errors_are_one_sentence(
    refused: Refused, study: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert message.format(tmp=tmp_path) in refused("sweep", *(word.format(tmp=tmp_path) for word in arguments))


@pytest.mark.parametrize("extra", ["optuna", "sqlalchemy"])
def test_without_the_extra(refused: Refused, study: Path, monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    for name in ("heed.sweep.study", "sqlalchemy.exc"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    message = f"heed: heed sweep needs {extra}, which is not installed: run `pip install -e '.[sweep]'`"
    assert refused("sweep", study).startswith(message)
