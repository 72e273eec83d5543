"""Checkpoints and runs of another version of heed and damaged checkpoints are refused by name."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import heed
from heed.errors import HeedError
from heed.files import read_yaml
from heed.run_format import RUN_FORMAT, RunFormatError, check_run_format
from heed.runs.averaging import checkpoint_weights
from heed.runs.checkpoints import FORMAT_KEY
from heed.runs.results import RESULTS, read_results
from heed.runs.table import read_runs
from heed.training.callbacks.checkpoints import AtomicCheckpointIO
from tests.finished import FinishedRun


def test_a_checkpoint_with_one_flipped_bit_is_refused_by_name(tmp_path: Path) -> None:
    path, weight = tmp_path / "last-0000020.ckpt", torch.full((100,), 1.5)
    content = {"heed_format": RUN_FORMAT, "state_dict": {"model.w": weight}, "loops": {}, "callbacks": {}}
    AtomicCheckpointIO().save_checkpoint(content, path)
    assert torch.equal(checkpoint_weights(path, ema=False)["w"], weight)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(weight.numpy().tobytes()) + 3] ^= 1  # of the exponent of the first weight
    path.write_bytes(damaged)
    with pytest.raises(HeedError, match=r"last-0000020\.ckpt is no checkpoint, or a damaged one"):
        AtomicCheckpointIO().load_checkpoint(path)
    with pytest.raises(HeedError, match=r"last-0000020\.ckpt is damaged"):
        checkpoint_weights(path, ema=False)


def test_the_current_format_is_accepted() -> None:
    check_run_format(RUN_FORMAT, Path("run.ckpt"))


@pytest.mark.parametrize("found", [None, RUN_FORMAT - 1, RUN_FORMAT + 1, True, "two", float(RUN_FORMAT)])
def test_another_format_is_refused(found: Any) -> None:
    with pytest.raises(
        RunFormatError, match=rf"^run\.ckpt was written by another version of heed \(.*reads {RUN_FORMAT}\)"
    ):
        check_run_format(found, Path("run.ckpt"))


@pytest.fixture
def old(finished: FinishedRun, tmp_path: Path) -> Path:
    """A copy of a finished run whose files have the format before this one."""
    run = tmp_path / "old"
    shutil.copytree(finished.folder, run)
    config, results = read_yaml(run / "model/config.yaml"), json.loads((run / RESULTS).read_text())
    assert config["format"] == results["format"] == RUN_FORMAT
    (run / "model/config.yaml").write_text(yaml.safe_dump(config | {"format": RUN_FORMAT - 1}))
    (run / RESULTS).write_text(json.dumps(results | {"format": RUN_FORMAT - 1}))
    for path in (run / "checkpoints").iterdir():
        checkpoint = torch.load(path, weights_only=True)
        assert checkpoint[FORMAT_KEY] == RUN_FORMAT
        torch.save(checkpoint | {FORMAT_KEY: RUN_FORMAT - 1}, path)
    return run


def test_a_run_of_an_older_version_is_refused_by_name(old: Path) -> None:
    (checkpoint, *_) = (old / "checkpoints").glob("last-*.ckpt")
    for path, read in (
        (old / "model/config.yaml", lambda: heed.load(old)),
        (old / RESULTS, lambda: read_results(old / RESULTS)),
        (old / RESULTS, lambda: heed.compare([old, old])),
        (checkpoint, lambda: checkpoint_weights(checkpoint, ema=False)),
    ):
        with pytest.raises(HeedError, match=f"{re.escape(str(path))} was written by another version of heed"):
            read()
    (row,) = read_runs(old)
    assert row["state"] == "written by another version of heed"
