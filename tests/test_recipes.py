"""The scripts in recipes/: their options and presets exist, and they go on where they were stopped."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heed.cli import build_parser
from heed.launch.compose import Command
from heed.launch.plan import check_options

RECIPES = Path(__file__).parents[1] / "recipes"


SCRIPTS = sorted(path for path in RECIPES.glob("*.sh") if os.access(path, os.X_OK))
CHOICES = {
    "multi30k_41": [{}, {"EXPERIMENT": "multi30k_quick_rnn"}],
    "multi30k_diversified": [{}, {"STUDENT": "rnn"}],
    "multi30k_ensemble": [{}, {"EXPERIMENT": "multi30k_en_de_rnn"}],
}
"""The environments in which a script is tried."""
STUB = """
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(words) + "\\n")
for word in words:
    if word.startswith("folder="):
        folder = Path(word.partition("=")[2].strip("'"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").touch()
print({})
"""
"""A program in place of heed: it writes down its arguments, and every run is finished at once."""


def call(script: Path, folder: Path, environment: dict[str, str]) -> list[list[str]]:
    """Run a script with the program in place of heed, and return the arguments of each call."""
    (folder / "stub.py").write_text(STUB, encoding="utf-8")
    (folder / "corpus").mkdir(exist_ok=True)
    (folder / "corpus" / "test_2016_flickr.en").touch()
    calls = folder / "calls"
    calls.write_text("")
    variables = {"HEED": f"{sys.executable} {folder / 'stub.py'}", "CALLS": str(calls), "OUT": str(folder / "out")}
    environment = {**os.environ, **variables, **environment}
    subprocess.run([script, folder / "corpus", "seed=7"], cwd=folder, env=environment, check=True)
    return [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]


@pytest.mark.posix("a POSIX shell")
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_can_read_every_script(shell: str) -> None:
    assert len(SCRIPTS) >= 2
    assert {script.stem for script in SCRIPTS} == {*CHOICES}
    for script in RECIPES.glob("*.sh"):
        subprocess.run([shell, "-n", script], check=True)
    for script in SCRIPTS:  # without arguments: how to call it
        shown = subprocess.run([script], capture_output=True, text=True)
        assert shown.returncode == 2
        assert f"recipes/{script.name} DIR [OPTION …]" in shown.stdout


@pytest.mark.posix("a POSIX shell")
@pytest.mark.parametrize(
    ("name", "environment"), [(name, each) for name, choices in CHOICES.items() for each in choices], ids=str
)
def test_the_presets_options_and_arguments_of_a_script_exist(
    name: str, environment: dict[str, str], tmp_path: Path, compose: Callable[..., Command]
) -> None:
    script = RECIPES / f"{name}.sh"
    calls = call(script, tmp_path, environment)
    trainings = {tuple(words[1:]) for words in calls if words[0] == "train"}
    assert len(trainings) >= 3
    for words in trainings:
        assert "seed=7" in words
    kinds = {tuple(word for word in words if not word.startswith(("hydra.", "seed="))) for words in trainings}
    for kind in kinds:  # seeds differ in nothing else
        check_options(compose(*kind).options)
    for words in calls:
        if words[0] != "train":
            build_parser().parse_args(words)
    again = call(script, tmp_path, environment)
    assert [words[0] for words in again] == [words[0] for words in calls if words[0] == "synthesize"], "all is kept"
    interrupted = next((tmp_path / "out").glob("*/results.json"))
    interrupted.unlink()
    (interrupted.parent / "checkpoints").mkdir()
    (interrupted.parent / "checkpoints" / "last-0000001.ckpt").touch()
    ((_, folder, *options),) = [words for words in call(script, tmp_path, environment) if words[0] == "train"]
    assert (folder, options[-1]) == (f"folder='{interrupted.parent}'", "resume=true")
