"""Studies are read from an Optuna storage as they were told, whatever has happened in them."""

import math
import sqlite3
from pathlib import Path

import optuna
import pytest
import yaml
from optuna.trial import TrialState

from heed.errors import HeedError
from heed.sweep.study import read_study
from tests.sweep.studies import SPACE, SPACE_TEXT, make_study, make_trial, searched_trials, write_verdict

PLAIN = {"optimizer.lr": 1e-3, "model.dropout": 0.2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "small"


def test_asked_and_told_trials(folder: Path) -> None:
    study = make_study(folder)
    for number in range(4):
        trial = study.ask(SPACE)
        trial.set_user_attr("folder", str(number))
        for step in (50, 100):
            trial.report(10.0 * number + step / 100, step)
        if number == 1:
            study.tell(trial, state=TrialState.PRUNED)
        elif number == 2:
            trial.set_user_attr("reason", "Out of memory.")
            study.tell(trial, state=TrialState.FAIL)
        elif number == 0:
            study.tell(trial, 12.5)
    complete, pruned, failed, running = read_study(folder).trials
    assert (complete.state, complete.value, complete.score, complete.folder) == ("complete", 12.5, 12.5, "0")
    assert complete.curve == ((50, 0.5), (100, 1.0))
    assert complete.params == study.trials[0].params
    assert (pruned.state, pruned.score, len(pruned.curve)) == ("pruned", 11.0, 2)
    assert (failed.state, failed.reason) == ("failed", "Out of memory.")
    assert (running.state, running.score) == ("running", 31.0)
    assert math.isnan(failed.value)
    assert math.isnan(running.value)


def test_the_study_is_described(folder: Path) -> None:
    make_study(folder, trials=searched_trials(8))
    study = read_study(folder)
    assert (study.name, study.objective, study.maximize, study.n_trials) == ("small", "valid.bleu", True, 40)
    assert study.pruner == "MedianPruner"
    assert yaml.safe_load(study.space) == SPACE_TEXT
    assert study.parameters == [*SPACE], "in the order of the space, whatever the database says"
    assert study.is_searching


def test_a_retried_trial_is_one_trial(folder: Path) -> None:
    lost = make_trial(PLAIN, state="FAIL", curve={50: 1.0, 100: 2.0}, folder="0", reason="The worker died.")
    study = make_study(folder, trials=[lost, make_trial(PLAIN, 5.0)])
    study.add_trial(make_trial(PLAIN, state="FAIL", curve={150: 3.0}, failed_trial=0))
    study.add_trial(make_trial(PLAIN, 4.0, curve={150: 3.5, 200: 4.0}, failed_trial=0))
    resumed, other = read_study(folder).trials
    assert (resumed.number, resumed.state, resumed.value) == (0, "complete", 4.0)
    assert resumed.curve == ((50, 1.0), (100, 2.0), (150, 3.5), (200, 4.0))
    assert (resumed.folder, resumed.reason, other.number) == ("0", "", 1)


def test_values_that_are_not_finite(folder: Path) -> None:
    curve = {50: 1.0, 100: math.nan, 150: math.inf}
    make_study(folder, trials=[make_trial(PLAIN, state="RUNNING", curve=curve), make_trial(PLAIN, math.inf)])
    study = read_study(folder)
    assert study.trials[0].curve == ((50, 1.0),)
    assert study.best_trials() == []


def test_confirmations_are_no_trials_of_the_search(folder: Path) -> None:
    study = make_study(folder, trials=[make_trial(PLAIN, 38.0), make_trial(PLAIN, 37.0)], n_trials=2)
    assert read_study(folder).verdict is None
    study.add_trial(make_trial({}, state="RUNNING", confirms=[1, 2]))
    tests = {"test": {"bleu": [35.0, 36.0], "signature": "tok:13a"}}
    write_verdict(study, {0: [36.5, 37.5]}, tests=tests)
    found = read_study(folder)
    assert [trial.number for trial in found.trials] == [0, 1]
    assert (found.is_searching, found.confirmed, found.confirming) == (False, 2, 1)
    assert (found.scores(0), found.scores(1)) == ([36.5, 37.5], [])
    assert found.verdict is not None
    assert (found.verdict.winner, found.verdict.tests) == (0, tests)


def test_a_study_may_be_renamed(folder: Path) -> None:
    make_study(folder)
    assert read_study(folder.rename(folder.with_name("other"))).name == "small"


def test_missing_and_foreign_databases(folder: Path) -> None:
    folder.mkdir()
    database = folder / "study.db"
    with pytest.raises(HeedError, match=r"There is no study .*study\.db: give its folder"):
        read_study(folder)
    assert not database.exists()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = database.read_bytes()
    with pytest.raises(HeedError, match="cannot be used as an Optuna study: no such table"):
        read_study(folder)
    assert database.read_bytes() == before
    database.write_text("no database " * 1000)
    with pytest.raises(HeedError, match=r"study\.db cannot be used as an Optuna study: file is not a database"):
        read_study(folder)


def test_studies_of_others_and_of_another_version(tmp_path: Path) -> None:
    make_study(tmp_path / "old", format=4)
    with pytest.raises(HeedError, match="made by another version of heed"):
        read_study(tmp_path / "old")
    optuna.create_study(study_name="small", storage=f"sqlite:///{tmp_path / 'study.db'}")
    with pytest.raises(HeedError, match=r"heed made no study in .*study\.db: give the folder"):
        read_study(tmp_path)
