"""Every experiment from its command line to its report, with models and test sets as small as they can be."""

import dataclasses
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from experiments import __main__ as experiments_main
from experiments import antecedents, hardness, measures
from experiments.claim import Claim
from experiments.claims import CLAIMS, heads, parallel, score_functions, vanishing_gradients
from experiments.runner import ROOT, ExperimentRunner, ModelSpec, TrainedModel

from heed.data.text.synthetic_corpus import read_split
from tests import forkserver

TINY = (
    "data=synthetic", "data.train=400", "data.valid=60", "data.test=60", "data.long=20", "trainer=cpu",
    "search=greedy", "search.max_length_factor=0.5", "search.max_length_extra=5", "logger=none",
    "callbacks.attention_maps=null",
    "callbacks.attention_heads=null", "trainer.keep_best=1", "trainer.log_every=1", "tokenizer.vocab_size=500",
)  # fmt: skip
SMALLER = {
    "transformer": ("model.d_model=8", "model.d_ff=8", "model.encoder_layers=1", "model.decoder_layers=1"),
    "rnn": ("model.d_model=8", "model.d_embedding=8"),
}
ONE_STEP = ("trainer.max_steps=1", "trainer.validate_every=1", "schedule.warmup_steps=0")


@pytest.fixture
def tiny_experiments(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Train one seed of every model for one step, in this process, and measure on few sentences."""

    def train_missing(runner: ExperimentRunner, specs: Iterable[ModelSpec]) -> None:
        for spec in specs:
            (model,) = runner.trained(spec)
            if not model.folder.exists():
                family = spec.overrides[0].removeprefix("model=")
                shutil.move(run(model.folder.name, *TINY, *spec.overrides, *SMALLER[family], *ONE_STEP), model.folder)

    all_seeds = ExperimentRunner.trained

    def trained(runner: ExperimentRunner, spec: ModelSpec) -> list[TrainedModel]:
        return all_seeds(runner, dataclasses.replace(spec, seeds=1))

    monkeypatch.setattr(ExperimentRunner, "trained", trained)
    monkeypatch.setattr(ExperimentRunner, "train_missing", train_missing)
    monkeypatch.setattr(measures, "PER_TAG", 8)
    monkeypatch.setattr(heads, "SENTENCES", 4)
    monkeypatch.setattr(parallel, "LENGTHS", (2, 3, 4, 5))
    monkeypatch.setattr(score_functions, "LENGTHS", (2, 3))
    monkeypatch.setattr(score_functions, "ROUNDS", 1)
    monkeypatch.setattr(vanishing_gradients, "LENGTH", 20)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests of this module, which share the trained models."""
    folder = tmp_path_factory.mktemp("claims")
    (folder / "models").mkdir()
    return folder


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_each_claim_is_measured_and_reported(
    tiny_experiments: None, out: Path, claim: Claim, capsys: pytest.CaptureFixture[str]
) -> None:
    experiments_main.main([claim.name, "--out", str(out)])
    (report,) = json.loads((out / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert report["name"] == claim.name
    assert isinstance(report["held"], bool)
    assert "nan" not in report["summary"]
    table = capsys.readouterr().out.partition(report["summary"])[2]
    assert re.search(r"^  .+: [^ ].*\d", table, re.MULTILINE)


def test_findings_are_published_beside_those_of_other_claims(
    tiny_experiments: None, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = json.loads(experiments_main.RESULTS.read_text(encoding="utf-8"))
    copy = tmp_path / "claims.json"
    shutil.copy(experiments_main.RESULTS, copy)
    monkeypatch.setattr(experiments_main, "RESULTS", copy)
    experiments_main.main(["context", "--out", str(out), "--publish", "this machine"])
    after = json.loads(copy.read_text(encoding="utf-8"))
    assert after["machine"] == "this machine"
    assert after["rows"].pop("context") != before["rows"].pop("context")
    assert after["rows"] == before["rows"]


def test_hardness_and_antecedents_of_a_run(
    tiny_experiments: None,
    run: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = run("transformer", *TINY, *SMALLER["transformer"], *ONE_STEP, "name=the run")
    monkeypatch.setattr(hardness, "read_split", lambda name: read_split(name, 20))
    hardness.main([str(folder)])
    printed = capsys.readouterr().out
    assert "word for word: BLEU" in printed
    assert "the run: BLEU" in printed
    assert "pronoun" in printed

    antecedents.main([str(folder)])
    (measured,) = json.loads(capsys.readouterr().out).values()
    assert [*measured] == [
        "encoder, from “it”", "decoder, when writing er, sie or es", "encoder, from an ambiguous noun"
    ]  # fmt: skip
    assert {path.name for path in (folder / "attention").glob("antecedents-*")} == {
        "antecedents-encoder.png", "antecedents-decoder.png",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "status", "printed"),
    [
        (["scripts/experiments", "ordr"], 2, "invalid choice: 'ordr'"),
        (["scripts/experiments", "--help"], 0, "scripts/experiments order scaling"),
        (["scripts/experiments/hardness.py", "--help"], 0, "usage: hardness.py"),
        (["scripts/experiments/antecedents.py", "--help"], 0, "usage: antecedents.py"),
    ],
)
def test_commands_start_from_a_shell(arguments: list[str], status: int, printed: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = forkserver.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert printed in done.stdout + done.stderr
