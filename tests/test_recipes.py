"""The scripts in recipes/: their options and presets exist, and they go on where they were stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heed.cli import build_parser
from heed.files import read_yaml
from heed.launch.compose import Command
from heed.launch.plan import check_options
from tests.data.texts import numbered_dogs

RECIPES = Path(__file__).parents[1] / "recipes"
TINY = [
    "trainer=cpu", "model.d_model=8", "model.num_heads=2", "model.d_ff=16", "model.encoder_layers=1",
    "model.decoder_layers=1", "tokenizer.vocab_size=auto", "module.r_drop=0", "batching.batch_tokens=200",
    "schedule.warmup_steps=1", "trainer.max_steps=30", "trainer.validate_every=4", "trainer.log_every=1",
    "trainer.keep_last=2", "callbacks.diagnosis=null", "callbacks.attention_heads=null", "search.beam=2", "logger=none",
]  # fmt: skip


SCRIPTS = sorted(path for path in RECIPES.glob("*.sh") if os.access(path, os.X_OK))
CHOICES = {
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
        folder.mkdir(parents=True)
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


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.reliability
@pytest.mark.posix("a POSIX shell")
def test_data_diversification_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    dogs = numbered_dogs(200)
    (tmp_path / "corpus").mkdir()
    for name, rows in (("train", slice(180)), ("val", slice(180, 190)), ("test_2016_flickr", slice(190, 200))):
        for side, texts in (("en", dogs.src[rows]), ("de", dogs.tgt[rows])):
            (tmp_path / "corpus" / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts))
    heed = tmp_path / "heed"
    heed.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {sys.executable} -m heed "$@"\n')
    heed.chmod(0o755)
    out, calls = tmp_path / "out", tmp_path / "calls"

    def start() -> "subprocess.Popen[str]":
        calls.write_text("")
        return subprocess.Popen(
            [RECIPES / "multi30k_diversified.sh", tmp_path / "corpus", *TINY, f"cache_dir='{tmp_path / 'cache'}'"],
            cwd=tmp_path, env={**os.environ, "HEED": str(heed), "OUT": str(out), "SEEDS": "1"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def kill_after_checkpoint(run: str) -> None:
        """Start the recipe, and kill it when this run has written a checkpoint."""
        process = start()
        while not [*(out / run / "checkpoints").glob("last-*.ckpt")]:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert not (out / run / "results.json").exists(), "killed too late"

    def called() -> list[str]:
        """The runs of the last start, with what was done, in order."""
        lines = [line.split() for line in calls.read_text().splitlines()]
        dirs = [next((Path(w.partition("=")[2].strip("'")).name for w in line if "run.dir" in w), "") for line in lines]
        return [
            " ".join([line[0], name, *(w for w in line if w == "resume=true")])
            for line, name in zip(lines, dirs, strict=True)
        ]

    def written() -> dict[Path, int]:
        """The times at which the finished runs and translations were written."""
        files = [*out.glob("*/results.json"), *out.glob("*/metrics.csv"), *out.glob("pairs/*.jsonl")]
        return {file: file.stat().st_mtime_ns for file in files}

    kill_after_checkpoint("backward-1")
    assert called() == ["train forward-1", "train backward-1"]
    before = written()
    kill_after_checkpoint("student-1")
    assert called() == ["train backward-1 resume=true", "synthesize ", "train student-1"]
    assert written()[out / "forward-1/results.json"] == before[out / "forward-1/results.json"]

    before = written()
    process = start()
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert called() == ["synthesize ", "train student-1 resume=true"]
    after = written()
    kept = {file for file in before if file.parent.name != "student-1"}
    assert {file: after[file] for file in kept} == {file: before[file] for file in kept}
    assert len([file for file in kept if file.suffix == ".jsonl"]) == 2
    whole, *resumed = (
        [line.partition(",")[0] for line in (out / run / "metrics.csv").read_text().splitlines()]
        for run in ("forward-1", "backward-1", "student-1")
    )
    assert resumed == [whole, whole], "no step was trained twice"
    train = read_yaml(out / "student-1/config.yaml")["data"]["train"]
    assert [Path(str(file)).name for file in train[1:]] == ["1.jsonl", "2.jsonl"]
    assert (out / "student-1/translations/test_2016_flickr.hyp").exists()
