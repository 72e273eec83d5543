"""Studies are read from an Optuna storage as they were told, whatever has happened in them."""

import math
import sqlite3
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from optuna.trial import TrialState

from heed.errors import HeedError
from heed.sweep.summary import read_study
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
    assert (complete.state, complete.values, complete.score, complete.folder) == ("complete", (12.5,), 12.5, "0")
    assert complete.curve == ((50, 0.5), (100, 1.0))
    assert complete.params == study.trials[0].params
    assert (pruned.state, pruned.score, len(pruned.curve)) == ("pruned", 11.0, 2)
    assert (failed.state, failed.values, failed.reason) == ("failed", (), "Out of memory.")
    assert (running.state, running.score, running.values) == ("running", 31.0, ())


def test_the_study_is_described(folder: Path) -> None:
    make_study(folder, trials=searched_trials(8))
    study = read_study(folder)
    assert (study.name, study.objectives, study.maximize, study.n_trials) == ("small", ["valid.bleu"], [True], 40)
    assert study.pruner == "MedianPruner"
    assert yaml.safe_load(study.space) == SPACE_TEXT
    # In the order of the space, whatever the database says.
    assert [parameter.name for parameter in study.parameters] == [*SPACE]
    by_name = {parameter.name: parameter for parameter in study.parameters}
    assert [name for name, parameter in by_name.items() if parameter.log] == ["optimizer.lr"]
    assert by_name["model/positions"].choices == ("sinusoidal", "rotary", "learned")


def test_a_retried_trial_is_one_trial(folder: Path) -> None:
    lost = make_trial(PLAIN, state="FAIL", curve={50: 1.0, 100: 2.0}, folder="0", reason="The worker died.")
    study = make_study(folder, trials=[lost, make_trial(PLAIN, 5.0)])
    study.add_trial(make_trial(PLAIN, state="FAIL", curve={150: 3.0}, failed_trial=0))
    study.add_trial(make_trial(PLAIN, 4.0, curve={150: 3.5, 200: 4.0}, failed_trial=0))
    resumed, other = read_study(folder).trials
    assert (resumed.number, resumed.state, resumed.values, resumed.attempts) == (0, "complete", (4.0,), 3)
    assert resumed.curve == ((50, 1.0), (100, 2.0), (150, 3.5), (200, 4.0))
    assert (resumed.folder, resumed.reason) == ("0", "")
    assert (other.number, other.attempts) == (1, 1)


def test_a_trial_that_optuna_itself_retries(folder: Path) -> None:
    """The system attributes are those of Optuna's callback, not only of `make_trial`."""
    study = make_study(folder)
    study.ask()
    (trial,) = study.get_trials()
    study.tell(0, state=TrialState.FAIL)
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        retry = optuna.storages.RetryHeartbeatStaleTrialCallback()
    retry(study, trial)
    (found,) = read_study(folder).trials
    assert (found.number, found.state, found.attempts) == (0, "waiting", 2)


def test_values_that_are_not_finite(folder: Path) -> None:
    curve = {50: 1.0, 100: math.nan, 150: math.inf}
    make_study(folder, trials=[make_trial(PLAIN, state="RUNNING", curve=curve), make_trial(PLAIN, math.inf)])
    study = read_study(folder)
    assert study.trials[0].curve == ((50, 1.0),)
    assert study.best_trials() == []


def test_empty_study(folder: Path) -> None:
    make_study(folder)
    study = read_study(folder)
    assert (study.trials, study.parameters) == ([], [])
    assert study.is_searching


def test_several_objectives(folder: Path) -> None:
    values = [(10.0, 5.0), (12.0, 9.0), (9.0, 6.0), (12.0, 9.0), (11.0, 9.5)]
    make_study(
        folder,
        directions=["maximize", "minimize"],
        objectives=["valid.bleu", "params"],
        trials=[make_trial(PLAIN, value) for value in values],
    )
    study = read_study(folder)
    assert study.maximize == [True, False]
    # Equal points are both on the front.
    assert sorted(study.front) == [0, 1, 3]
    assert [trial.number for trial in study.best_trials()] == [1, 3, 0, 4, 2]


def test_a_search_and_its_confirmation_share_a_database(folder: Path) -> None:
    make_study(folder, trials=searched_trials(3))
    storage = f"sqlite:///{folder / 'study.db'}"
    confirm = optuna.create_study(study_name="small confirm 0", storage=storage)
    confirm.set_user_attr("heed", {"format": 3, "study": "small", "confirms": True})
    confirm.add_trials([make_trial(PLAIN, 1.0), make_trial(PLAIN, state="RUNNING")])
    optuna.create_study(study_name="of somebody else", storage=storage)
    study = read_study(folder)
    assert [trial.number for trial in study.trials] == [0, 1, 2]
    assert (study.n_trials, study.confirmed, study.confirming) == (40, 1, 1)


def test_a_database_of_many_studies_is_searched_for_the_name_of_the_folder(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    make_study(shared, study="one", trials=[make_trial(PLAIN, 1.0)])
    make_study(shared, study="two").set_user_attr(
        "heed", {"format": 3, "study": "two", "space": {}, "objectives": ["x"]}
    )
    (tmp_path / "two").mkdir()
    url = f"sqlite:///{shared / 'study.db'}"
    assert read_study(tmp_path / "two", storage=url).name == "two"
    with pytest.raises(HeedError, match=r"no study three \(it has shared, two\): give the folder"):
        read_study(tmp_path / "three", storage=url)
    # The database in a folder of two studies is none of a single study.
    with pytest.raises(HeedError, match="no study renamed"):
        read_study(shared.rename(tmp_path / "renamed"))


def test_a_study_may_be_renamed(folder: Path) -> None:
    make_study(folder)
    assert read_study(folder.rename(folder.with_name("other"))).name == "small"


def test_only_the_last_confirmation_counts(folder: Path) -> None:
    """A search that went on after its end has another one."""
    make_study(folder)
    for name, values in (("small confirm 0 1", [1.0, 2.0]), ("small confirm 0 7", [3.0])):
        confirm = optuna.create_study(study_name=name, storage=f"sqlite:///{folder / 'study.db'}")
        confirm.set_user_attr("heed", {"format": 3, "study": "small", "confirms": True})
        confirm.add_trials([make_trial(PLAIN, value) for value in values])
    assert read_study(folder).confirmed == 1


# ---- the verdict


def test_verdict(folder: Path) -> None:
    make_study(folder)
    assert read_study(folder).verdict is None
    found = [{"number": 7, "found": 38.2, "valid": [38.0, 38.4]}, {"number": 3, "found": 38.1, "valid": [36.0, 36.4]}]
    tests = {"test": {"bleu": [35.0, 36.0], "signature": "tok:13a"}}
    write_verdict(folder, found, tests=tests)
    verdict = read_study(folder).verdict
    assert verdict is not None
    assert (verdict.best.number, verdict.best.found, verdict.best.mean) == (7, 38.2, pytest.approx(38.2))
    assert [one.number for one in verdict.scored] == [7, 3]
    assert verdict.tests == tests
    assert verdict.compare is None
    assert verdict.noise is not None
    # Two configurations of two seeds: two degrees of freedom, and the error of a difference of means of two is the SD.
    value, interval = verdict.difference(verdict.scored[1])
    half = 4.30 * verdict.noise
    assert value == pytest.approx(2.0)
    assert interval == (pytest.approx(2 - half), pytest.approx(2 + half))


def test_difference_of_single_seeds_has_no_interval(folder: Path) -> None:
    make_study(folder)
    write_verdict(folder, [{"number": 1, "found": 2.0, "valid": [3.0]}, {"number": 2, "found": 2.0, "valid": [2.5]}])
    verdict = read_study(folder).verdict
    assert verdict is not None
    assert verdict.difference(verdict.scored[1]) == (0.5, None)


def test_configurations_whose_runs_failed(folder: Path) -> None:
    make_study(folder)
    lost = {"number": 2, "found": 2.0, "valid": [], "failed": ["seed 2: Out of memory."]}
    write_verdict(folder, [{"number": 1, "found": 2.0, "valid": [3.0, 4.0]}, lost], noise=None)
    verdict = read_study(folder).verdict
    assert verdict is not None
    assert verdict.scored == [verdict.best]
    assert verdict.configurations[1].failed == ["seed 2: Out of memory."]


@pytest.mark.parametrize(
    "damaged",
    ["", "[]", "{", '{"format": 2, "configurations": [], "winner": 1}', "[" * 100_000, "null"],
)
def test_damaged_verdict_is_one_sentence(folder: Path, damaged: str) -> None:
    make_study(folder)
    (folder / "verdict.json").write_text(damaged)
    with pytest.raises(HeedError, match=r"verdict\.json is damaged .*: move it away"):
        read_study(folder)


@pytest.mark.parametrize("changes", [{"format": 1}, {"winner": 3}])
def test_verdict_of_another_version_or_without_its_winner(folder: Path, changes: dict[str, Any]) -> None:
    make_study(folder)
    write_verdict(folder, [{"number": 1, "found": 2.0, "valid": [3.0]}], **changes)
    with pytest.raises(HeedError, match=r"verdict\.json is damaged .*: move it away"):
        read_study(folder)


# ---- storages that cannot be read


def test_missing_and_foreign_databases(folder: Path) -> None:
    with pytest.raises(HeedError, match=r"There is no study .*study\.db: give its folder"):
        read_study(folder)
    folder.mkdir()
    database = folder / "study.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = database.read_bytes()
    with pytest.raises(HeedError, match="is not an Optuna storage"):
        read_study(folder)
    assert database.read_bytes() == before
    database.write_text("no database " * 1000)
    with pytest.raises(HeedError, match=r"study\.db cannot be used \(file is not a database\)"):
        read_study(folder)


def test_studies_that_heed_did_not_make(folder: Path) -> None:
    folder.mkdir()
    optuna.create_study(study_name="small", storage=f"sqlite:///{folder / 'study.db'}")
    with pytest.raises(HeedError, match=r"no study small \(no study in it was made by heed\)"):
        read_study(folder)


@pytest.mark.parametrize("changes", [{"format": 1}, {"space": "x"}])
def test_studies_of_another_version(folder: Path, changes: dict[str, Any]) -> None:
    make_study(folder, **changes)
    with pytest.raises(HeedError, match="made by another version of heed"):
        read_study(folder)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:////nowhere/x.db", r"There is no study /nowhere/x\.db"),
        ("nonsense", "is not the URL of a database"),
        ("postgresql+psycopg://me:secret@127.0.0.1:9/x", r"me:\*\*\*@127\.0\.0\.1:9/x cannot be used .*refused"),
        ("oracle9://x", "cannot be used"),
        ("mysql+mysqldb://me:secret@127.0.0.1:9/x", r"needs the Python package MySQLdb|cannot be used"),
    ],
)
def test_unreachable_storages_are_one_sentence(folder: Path, url: str, message: str) -> None:
    with pytest.raises(HeedError, match=message) as caught:
        read_study(folder, storage=url)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
