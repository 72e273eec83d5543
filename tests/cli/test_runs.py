"""``heed runs``: the table of runs and of seeds, and JSON."""

import json
from pathlib import Path

import pytest
import yaml

from heed.runs.config import OVERRIDES
from heed.runs.table import read_runs, runs_table, seed_table, sort_runs
from tests.cli.models import Heed
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


def test_mistakes_are_sentences(folder: Path, heed: Heed) -> None:
    for words, message in (
        ([folder / "nowhere"], "nowhere holds no runs"),
        (["--sort", "blue"], "'blue': choose one of"),
    ):
        status, out, err = heed("runs", *words)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert message in err
