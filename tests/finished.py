"""A finished run that many tests only read: `python train.py` trains it once for all test processes."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from tests import forkserver

TRAIN = Path(__file__).parents[1] / "train.py"
OPTIONS = [
    "data.train=60", "data.valid=20", "data.test=8", "data.long=6", "model=rnn", "model.d_embedding=16",
    "model.d_model=16", "trainer=cpu", "trainer.max_steps=4", "trainer.validate_every=2", "trainer.log_every=2",
    "logger=[csv,wandb]", "callbacks.sample_translations.sentences=3", "callbacks.attention_maps.sentences=1",
    "callbacks.attention_heads.sentences=6", "search=greedy", "weights=last", "name=finished",
    "metrics=[ter,chrf++,perplexity]",
]  # fmt: skip


@dataclass(frozen=True)
class FinishedRun:
    """A run of a tiny RNN on the built-in corpus, with all optional callbacks and two loggers."""

    folder: Path
    printed: str
    """What it wrote to stderr."""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """Return the run; the first process that asks for it trains it."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    root.mkdir(exist_ok=True)
    log = root / "stderr.txt"
    with FileLock(root / "lock"):
        if not log.exists():
            command = [sys.executable, TRAIN, *OPTIONS, f"cache_dir={root}/cache"]
            environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
            done = forkserver.run(command, cwd=root, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            log.write_text(done.stderr, encoding="utf-8")
    (folder,) = (root / "runs/finished").iterdir()
    return FinishedRun(folder, log.read_text(encoding="utf-8"))
