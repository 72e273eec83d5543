"""``train.py -m sweep=…``: whole studies of tiny runs, by real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from heed.sweep.study import read_study
from tests import forkserver
from tests.sweep.studies import make_study
from tests.waiting import wait_for

TRAIN = Path(__file__).parents[2] / "train.py"
TINY = [
    "logger=none", "name=study", "data.train=200", "data.valid=10", "data.test=6", "data.long=4", "model.d_model=16",
    "model.d_ff=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1",
    "batching.batch_tokens=60",
    "trainer.max_steps=6", "trainer.validate_every=2", "callbacks.attention_maps=null", "tokenizer.vocab_size=400",
    "callbacks.sample_translations=null", "trainer.precision=32-true",
]  # fmt: skip
RANGE = "model.dropout=interval(0.1,0.4)"
SMALL = [*TINY, "sweep=default", "sweep.confirm=null", RANGE]

Command = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tokenizer and the encoded text of these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(tmp_path: Path, cache: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """``start(*arguments)`` starts a worker in an empty folder."""
    started = []

    def worker(*arguments: str, popen: Any = forkserver.Popen) -> "subprocess.Popen[str]":
        process: subprocess.Popen[str] = popen(
            [sys.executable, TRAIN, "-m", f"cache_dir={cache}", *arguments],
            cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield worker
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait for a worker and return what it printed."""
    printed, _ = process.communicate(timeout=400)
    assert process.returncode == 0, printed
    return printed


def trials(folder: Path, name: str = "study") -> list[FrozenTrial]:
    return optuna.load_study(study_name=name, storage=f"sqlite:///{folder / 'runs/study/study.db'}").trials


def curve(run: Path) -> list[str]:
    """Return the steps and validation scores of a run, without times."""
    rows = [line.split(",") for line in (run / "metrics.csv").read_text().splitlines()]
    kept = [i for i, name in enumerate(rows[0]) if name == "step" or name.startswith("valid_")]
    return [",".join(row[i] for i in kept) for row in rows]


@pytest.mark.slow
def test_a_study_prunes_confirms_and_writes_a_preset_that_repeats_the_winner(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    # Without warm-up the median prunes from the second trial on.
    pruner = ["sweep.pruner.n_startup_trials=1"]
    rates = "optimizer.lr=choice(1e-2,1e-7)"
    settings = [*TINY, "sweep=default", "sweep.objective=valid.loss", "sweep/sampler=grid", "sweep.n_trials=9", *pruner]
    printed = finish(start(*settings, rates, "sweep.confirm=1x2"))
    found = trials(tmp_path)
    assert [trial.state.name for trial in found] == ["COMPLETE", "PRUNED", "COMPLETE", "COMPLETE"], printed
    assert found[1].intermediate_values.keys() == {2}
    study = tmp_path / "runs/study"
    assert (study / "1/pruned.txt").read_text() == "The search ended this run early, after step 2.\n"
    assert not (study / "1/results.json").exists()
    assert list((study / "1/checkpoints").iterdir())
    assert json.loads((study / "0/results.json").read_text())["test"] is None

    summary = read_study(study)
    assert summary.verdict is not None
    assert (
        [one.folder for one in summary.confirmations] == summary.verdict.runs == ["confirm/0_seed2", "confirm/0_seed3"]
    )
    tested = json.loads((study / "confirm/0_seed2/results.json").read_text())
    assert tested["tests"].keys() == summary.verdict.tests.keys() == {"test", "long"}
    assert tested["valid"]["loss"] == summary.confirmations[0].value
    assert (study / "confirm/0_seed2/translations/long.hyp").read_text().count("\n") == 4

    preset = (tmp_path / "conf/experiment/study.yaml").read_text()
    assert "# optimizer.lr was searched in choice(1e-2,1e-7)" in preset
    assert "\n  lr: 0.01\n" in preset
    again = forkserver.run(
        [sys.executable, TRAIN, "--config-dir", "conf", "experiment=study", "seed=2", "hydra.run.dir=runs/again",
         "logger=none", "test=true"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    results = json.loads((tmp_path / "runs/again/results.json").read_text())
    assert results["valid"] == tested["valid"]
    assert results["tests"]["test"]["bleu"] == tested["tests"]["test"]["bleu"], "the test set is scored as in a run"
    assert curve(tmp_path / "runs/again") == curve(study / "confirm/0_seed2")


@pytest.mark.reliability
@pytest.mark.full
def test_another_worker_finishes_the_trial_of_a_killed_one(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    settings = [*SMALL, "sweep.n_trials=3", "sweep.heartbeat=1", "sweep/pruner=none", "trainer.max_steps=60",
                "trainer.validate_every=5"]  # fmt: skip
    victim = start(*settings)
    checkpoints = tmp_path / "runs/study/0/checkpoints"
    wait_for(lambda: checkpoints.is_dir() and list(checkpoints.glob("last-*.ckpt")))
    other = start(*settings)
    victim.kill()
    victim.communicate()
    printed = finish(other)

    done = [trial for trial in trials(tmp_path) if trial.state == TrialState.COMPLETE]
    assert len(done) == 3, printed
    assert len({trial.user_attrs["folder"] for trial in done}) == 3
    assert "resume=true" in (tmp_path / "runs/study/0/.hydra/overrides.yaml").read_text(), printed
    (continued,) = [trial for trial in done if trial.user_attrs["folder"] == "0"]
    undisturbed = forkserver.run(
        [sys.executable, TRAIN, *TINY, "trainer.max_steps=60", "trainer.validate_every=5", "test=false",
         f"model.dropout={continued.params['model.dropout']}", "hydra.run.dir=runs/undisturbed"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert curve(tmp_path / "runs/study/0") == curve(tmp_path / "runs/undisturbed")
    assert continued.intermediate_values.keys() == set(range(5, 61, 5))


@pytest.mark.reliability
@pytest.mark.full
def test_ctrl_c_leaves_a_study_that_goes_on(tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]) -> None:
    settings = [*SMALL, "sweep.n_trials=2", "trainer.max_steps=200", "trainer.validate_every=100"]
    worker = start(*settings)
    wait_for(lambda: (tmp_path / "runs/study/0/metrics.csv").exists())
    os.killpg(worker.pid, signal.SIGINT)
    printed, _ = worker.communicate(timeout=60)
    assert worker.returncode == 130, printed
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.FAIL, TrialState.WAITING]
    finish(start(*settings))
    done = [trial.user_attrs["folder"] for trial in trials(tmp_path) if trial.state == TrialState.COMPLETE]
    assert done[0] == "0"
    assert len(set(done)) == len(done) == 2


@pytest.mark.reliability
@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_the_end_of_a_terminal_let_every_worker_save_a_checkpoint(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"], number: signal.Signals
) -> None:
    settings = [*SMALL, "sweep.n_trials=2", "sweep.workers=2", "trainer.max_steps=2000", "trainer.validate_every=1000"]
    parent = start(*settings)
    study = tmp_path / "runs/study"
    wait_for(lambda: all((study / name / "metrics.csv").exists() for name in "01"))
    time.sleep(1)
    os.killpg(parent.pid, number)
    printed, _ = parent.communicate(timeout=60)
    logs = "".join(log.read_text() for log in study.glob("worker-*.log"))
    assert parent.returncode == 130, printed
    assert logs.count("Saving after this step") == 2
    assert all([*(study / name / "checkpoints").glob("last-*.ckpt")] for name in "01"), logs
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.FAIL] * 2 + [TrialState.WAITING] * 2


@pytest.mark.full
def test_workers_of_one_command(tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]) -> None:
    printed = finish(start(*SMALL, "sweep.n_trials=3", "sweep.workers=2", "sweep/pruner=none", "sweep.confirm=2x1"))
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.COMPLETE] * 5, printed
    assert (tmp_path / "runs/study/compare/index.html").exists()
    assert json.loads((tmp_path / "runs/study/compare/compare.json").read_text())["split"] == "valid"
    assert "Trial 0: complete, valid.bleu" in printed


@pytest.mark.full
def test_a_failed_trial_keeps_its_reason_and_the_search_goes_on(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    """A learning rate of 1e30 diverges; such a trial does not use up the budget of a search."""
    rates = "optimizer.lr=choice(1e30,1e-3)"
    printed = finish(
        start(*TINY, "sweep=default", "sweep.confirm=null", "sweep/sampler=grid", rates, "trainer.max_steps=40")
    )
    failed, complete = trials(tmp_path)
    assert (failed.state, complete.state) == (TrialState.FAIL, TrialState.COMPLETE), printed
    assert "diverged" in failed.user_attrs["reason"]
    assert "Trial 0 failed: Training diverged" in printed
    assert (tmp_path / "runs/study/0/failure.txt").exists()


@pytest.mark.full
def test_processes_of_one_trial_are_pruned_together(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    rates = "optimizer.lr=choice(1e-2,1e-7)"
    printed = finish(
        start(*TINY, "sweep=default", "sweep.objective=valid.loss", "sweep/sampler=grid", "sweep.confirm=null", rates,
              "sweep.pruner.n_startup_trials=1", "trainer=ddp_cpu", "batching.device_tokens=200",
              "batching.batch_tokens=200")
    )  # fmt: skip
    assert [trial.state for trial in trials(tmp_path)] == [TrialState.COMPLETE, TrialState.PRUNED], printed


# ---- what is refused, before anything is written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", *TINY, RANGE], "A grid cannot enumerate interval(…): add sweep=default"),
        ([*TINY, "sweep=smoke"], "sweep=smoke searches over many runs: add -m to start them."),
        (["-m", *TINY, "experiment=grid_norms", "sweep=smoke"], "contradict each other: give only one of them."),
        (["-m", *TINY, "sweep=smokee"], "sweep=smokee is unknown (did you mean sweep=smoke?)"),
        (["-m", *TINY, "sweep=default"], "The search space is empty"),
        (["-m", *SMALL, "model.dropout=interval(0.4,0.1)"], "model.dropout=interval(0.4,0.1) is not a range"),
        (["-m", *SMALL, "model.dropouts=interval(0.1,0.4)"], "model.dropouts is unknown (did you mean model.dropout"),
        (["-m", "sweep=default", "model=choice(rnn,transfomer)"], "model=transfomer is unknown (did you mean"),
        (["-m", *SMALL, "model.dropout=interval(1.2,1.5)"], "model.dropout=1.2 must be"),
        (["-m", *SMALL, "sweep.objective=valid.blue"], "sweep.objective=valid.blue is unknown"),
        (["-m", *SMALL, "sweep.objective=test.bleu"], "would choose by the test set"),
        (["-m", *SMALL, "sweep.objective=params"], "so trials cannot be pruned: add sweep/pruner=none"),
        (["-m", *SMALL, "sweep.objective=[valid.bleu,params]"], "must be text"),
        (["-m", *SMALL, "trainer.max_steps=x"], "train.py: trainer.max_steps=x must be an integer"),
        (["-m", *SMALL, "sweep.confirm=3"], "sweep.confirm=3 must be"),
        (["-m", *SMALL, "sweep.n_trials=0"], "sweep.n_trials=0 must be an integer >= 1"),
        (["-m", *SMALL, "sweep.trails=3"], "sweep.trails is unknown"),
        (["-m", *SMALL, "sweep/sampler=grid"], "model.dropout has a continuous range, and sweep/sampler=grid"),
        (["-m", *SMALL, "sweep/sampler=tpee"], "sweep/sampler=tpee is unknown"),
        (["-m", *SMALL, "sweep.sampler.n_startup_trials=many"], "n_startup_trials=many must be an integer"),
    ],
)  # fmt: skip
def test_mistakes(command: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    status, printed = command(*arguments)
    assert message in printed
    assert status == 2
    assert "Traceback" not in printed
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_study_with_another_space(command: Command, tmp_path: Path) -> None:
    database = tmp_path / "runs/study/study.db"
    make_study(database.parent, space={"model.dropout": "interval(0.1,0.2)"})
    before = database.read_bytes()
    status, printed = command("-m", *SMALL)
    assert status == 2
    assert "The study study exists with another" in printed
    assert database.read_bytes() == before
