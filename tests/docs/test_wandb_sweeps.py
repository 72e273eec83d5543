"""The wandb sweep of docs/sweep.md, run with the command and the environment that ``wandb agent`` gives it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.wandb_file import read_wandb

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sweep.md"
TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model.d_model=16", "model.d_embedding=16",
        "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "callbacks.attention_maps=null",
        "search=greedy"]  # fmt: skip


def read_sweep() -> dict[str, Any]:
    (text,) = re.findall(r"^```yaml\n(program:.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return dict(yaml.safe_load(text))


def draw(parameter: dict[str, Any]) -> Any:
    """Return a value of a parameter of the sweep."""
    values = parameter.get("values", [parameter.get("value", parameter.get("min"))])
    return values[0]


@pytest.mark.slow
def test_the_sweep_of_the_page_runs_as_the_agent_starts_it(tmp_path: Path) -> None:
    # Imported here, because the import takes seconds of every collection.
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args
    from wandb.sdk.lib.config_util import save_config_file_from_dict

    sweep = read_sweep()
    args = {name: {"value": draw(parameter)} for name, parameter in sweep["parameters"].items()}
    macros = create_sweep_command_args({"args": args}) | {
        "env": ["/usr/bin/env"], "interpreter": [sys.executable], "program": [str(ROOT / sweep["program"])],
    }  # fmt: skip
    command: list[str] = []
    for word in create_sweep_command(sweep["command"]):
        command += macros[word[2:-1]] if word.startswith("${") else [word]
    parameters = tmp_path / "config-run1.yaml"
    save_config_file_from_dict(str(parameters), args)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB")} | {
        "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline", "WANDB_SWEEP_ID": "sweep1",
        "WANDB_RUN_ID": "run1", "WANDB_SWEEP_PARAM_PATH": str(parameters),
    }  # fmt: skip
    done = subprocess.run(
        [*command, *TINY], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    (run,) = tmp_path.glob("runs/synthetic-rnn/*")
    assert done.returncode == 0, done.stderr
    results = json.loads((run / "results.json").read_text())
    assert (results["model"], results["test"]) == ("rnn", None)
    logged = read_wandb(run)
    assert logged.run_id == (run / "wandb" / "id").read_text() == "run1"
    assert logged.config["optimizer.lr"] == 0.0003
    assert any(sweep["metric"]["name"] in entry for entry in logged.history)
