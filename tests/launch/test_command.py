"""The entry point ``heed.launch.main``."""

import subprocess
import sys
from pathlib import Path

TRAIN = Path(__file__).parents[2] / "train.py"


def test_importing_the_package_loads_neither_torch_nor_hydra() -> None:
    code = "import sys, heed.launch; print({'torch', 'lightning', 'hydra'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_help_shows_examples_groups_and_options() -> None:
    done = subprocess.run([sys.executable, TRAIN, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Train a translation model.")
    assert "logger: csv, none, tensorboard, wandb" in done.stdout
    assert "label_smoothing: 0.1" in done.stdout
