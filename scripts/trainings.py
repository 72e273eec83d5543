"""Train a model for a published table, unless its run is there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def train(run: Path, *options: str) -> dict[str, Any]:
    """Train with these options of ``train.py``, or continue an interrupted run.

    Returns:
        Its ``results.json``. A run that has one is not trained again.
    """
    results = run / "results.json"
    if not results.exists():
        resume = ["resume=true"] * any(run.glob("checkpoints/last-*.ckpt"))
        command = [sys.executable, "train.py", *options, "logger=none", *resume, f"folder='{run}'"]
        subprocess.run(command, cwd=ROOT, check=True)
    return dict(json.loads(results.read_text(encoding="utf-8")))
