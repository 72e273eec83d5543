"""Names of models."""

from pathlib import Path

from heed.serve.models import default_names


def test_names_of_models(tmp_path: Path) -> None:
    paths = ["runs/rnn/2026-01-02_03-04-05", "runs/rnn/2026-02-02_03-04-05", "runs/base/2026-01-02_03-04-05/model", "x"]
    assert default_names([tmp_path / path for path in paths]) == ["rnn", "rnn-2", "base", "x"]
