"""``heed runs``, ``heed report`` and ``heed prepare``: what they print and write, and mistakes as sentences."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from heed.cli import main
from heed.data.pairs.pairs import StoredPairs
from heed.runs.config import OVERRIDES
from heed.runs.table import read_runs, runs_table, seed_table, sort_runs
from tests.cli.models import Heed, Refused
from tests.report.runs import make_run, results


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was interrupted and of two that differ in the seed, in the current folder."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "c")
    for seed, name in enumerate("ba"):
        run = make_run(tmp_path / "runs" / name)
        (run / "results.json").write_text(results(seed=seed))
        (run / OVERRIDES).parent.mkdir()
        (run / OVERRIDES).write_text(yaml.safe_dump(["model=rnn", f"seed={seed}"]))
    return Path("runs")


def test_the_table_of_runs_is_followed_by_that_of_seeds(folder: Path, heed: Heed) -> None:
    rows = sort_runs(read_runs(folder), "valid_bleu")
    seeds = seed_table(rows, folder)
    assert seeds
    assert heed("runs", "--sort", "valid_bleu") == (0, f"{runs_table(rows)}\n\n{seeds}\n", "")
    assert heed("runs", "runs/c", "--table", "csv") == (0, runs_table(read_runs(folder / "c"), "csv") + "\n", "")


def test_json_has_all_values(folder: Path, heed: Heed) -> None:
    status, out, _ = heed("runs", folder, "--json")
    assert (status, json.loads(out)) == (0, json.loads(json.dumps(sort_runs(read_runs(folder), "run"))))


def test_mistakes_are_sentences(folder: Path, refused: Refused) -> None:
    assert "nowhere holds no runs" in refused("runs", folder / "nowhere")
    assert "'blue': choose one of" in refused("runs", "--sort", "blue")
    for other in (folder, folder / "none"):
        assert "is not the folder of a run" in refused("report", other)


def test_a_page_is_written_for_each_run(tmp_path: Path, heed: Heed) -> None:
    runs = [make_run(tmp_path / name) for name in ("a", "b c")]
    assert heed("report", *runs)[1].splitlines() == [f"Report: {run / 'report.html'}" for run in runs]
    assert all((run / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>") for run in runs)


OPTIONS = ["data.train=300", "data.valid=10", "data.test=10", "data.long=10"]


def test_a_training_finds_what_was_prepared(tmp_path: Path, capfdbinary: Any) -> None:
    cache = f"cache_dir={tmp_path}/cache"
    assert main(["prepare", *OPTIONS, cache]) == 0
    printed = capfdbinary.readouterr().out.decode()
    assert "Prepared: 300 pairs with " in printed
    (folder,) = [path for path in (tmp_path / "cache" / "encoded").iterdir() if path.is_dir()]
    assert f"Folder:   {folder}" in printed
    assert f"Digest:   {StoredPairs.load(folder).digest}" in printed
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert main(["prepare", *OPTIONS, "model=rnn", "seed=3", cache]) == 0
    assert {path: path.stat().st_mtime_ns for path in written} == written, "it is prepared once"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["data.trian=3"], "data.trian is unknown (did you mean data.train"),
        (["data=nowhere"], "data=nowhere is unknown"),
        (["data=files", "data.train=[{folder}/t.tsv]", "data.valid=[{folder}/t.tsv]", "data.test=null", "test=false"],
         "t.tsv, line 3: 1 columns, but column 2 is needed"),
    ],
)  # fmt: skip
def test_wrong_options_and_files_are_sentences_and_leave_nothing_behind(
    wrong: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.tsv").write_text("src\ttgt\na\tb\nc\n")
    options = [] if "data=files" in wrong else OPTIONS
    given = [word.format(folder=tmp_path) for word in wrong]
    assert main(["prepare", *options, *given, f"cache_dir={tmp_path}/cache"]) == 2
    err = capfd.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert {path.suffix for path in (tmp_path / "cache").glob("*/*")} <= {".lock"}


def test_a_test_set_that_is_wanted_and_missing_is_a_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pairs = f"[['{tmp_path}/a','{tmp_path}/b']]"
    options = ["data=files", f"data.train={pairs}", f"data.valid={pairs}", "data.test=null", "logger=none"]
    assert main(["train", *options, f"hydra.run.dir={tmp_path}/run"]) == 2
    assert "data.test=null: there is no test set. Add test=false" in capfd.readouterr().err
