"""``heed prepare``: it prepares what a training reads, and reports wrong options like a training."""

from pathlib import Path
from typing import Any

import pytest

from heed.cli import main
from heed.data.pairs.pairs import StoredPairs

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
