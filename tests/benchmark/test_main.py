"""The benchmark's commands, end to end on a few sentences."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmark.__main__ import main

from tests import forkserver
from tests.exchange.models import transformer, write_model

ROOT = Path(__file__).parents[2]
SMALL_CORPUS = ["data.train=300", "data.valid=20", "data.test=20", "data.long=20"]


@pytest.fixture(autouse=True)
def restore_process_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`main` changes sys.path, environment variables and torch's number of threads."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_train_compares_heed_with_each_peer(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    out.write_text(json.dumps({"decode": [1], "skipped": {"x": "y"}}))
    options = ["--rounds", "2", "--warmup", "1", "--steps", "1", "--step-tokens", "150", "--precision", "fp32"]
    settings = [*SMALL_CORPUS, f"cache_dir={tmp_path}", "trainer.precision=32-true"]
    main(["train", "--peers", "torch", "--sizes", "smallest", *options, "--out", str(out), "--set", *settings])

    found = json.loads(out.read_text())
    assert found["decode"] == [1], "other commands' sections stay"
    assert found["skipped"] == {"x": "y"}
    assert [row["peer"] for row in found["train"]] == ["torch fp32", "torch-our-dropout fp32"]
    for row in found["train"]:
        assert (row["size"], row["rounds"]) == ("smallest", 2)
        low, high = row["spread"]["ratio"]
        assert 0 < low <= row["ratio"] <= high
        assert row["spread"]["ours"][0] <= row["ours"] <= row["spread"]["ours"][1]
    (limit,) = found["limit"]
    assert limit["matmul_tokens_per_second"] > 0
    assert limit["heed"] > 0


def test_decode_compares_heed_with_each_installed_peer(tmp_path: Path) -> None:
    """Greedy translations of this model end before the limit, where searches differ in what they prefer."""
    model, out = write_model(tmp_path / "model", transformer(), seed=1), tmp_path / "bench.json"
    options = ["--sentences", "4", "--batches", "1,4", "--beams", "2,1", "--longest", "30", "--rounds", "1"]
    main(["decode", "--model", str(model), *options, "--out", str(out)])

    found = json.loads(out.read_text())
    assert {row["peer"].split()[0] for row in found["decode"]} | found["skipped"].keys() == {"hf", "ctranslate2"}
    for row in found["decode"]:
        assert row["ratio"] > 0
        if row["peer"] in ("hf fp32", "ctranslate2 float32") and row["batch"] != "best":
            assert row["equal"] == 1, row


def test_command_starts_from_a_shell(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "benchmark"), "prepare", "--peers", "torch"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = forkserver.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("benchmark: --peers torch is unknown")
