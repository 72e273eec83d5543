"""Training and caching the models of experiments."""

import json
from pathlib import Path

import pytest
from experiments.measures import Values, plain
from experiments.runner import ExperimentRunner, ModelSpec, TrainedModel

from heed.errors import HeedError

FAKE_TRAIN = """
import json, pathlib, sys
options = dict(argument.split('=', 1) for argument in sys.argv[1:])
folder = pathlib.Path(options['folder'])
folder.mkdir(parents=True)
if 'fail' in options:
    sys.exit('out of luck')
score = {'bleu': float(options['score'])}
results = {'tests': {'test': score}, 'valid': score, 'train_seconds': 1.0}
(folder / 'results.json').write_text(json.dumps(results))
with (pathlib.Path(__file__).parent / 'log').open('a') as log:
    log.write('trained ')
"""


@pytest.fixture
def runner(tmp_path: Path) -> ExperimentRunner:
    """A runner with a fake ``train.py`` that counts its calls in tmp_path/log."""
    (tmp_path / "train.py").write_text(FAKE_TRAIN)
    return ExperimentRunner(tmp_path / "runs", ["a=1"], train=tmp_path / "train.py", parallel=2)


def test_each_model_and_seed_is_trained_once(runner: ExperimentRunner, tmp_path: Path) -> None:
    specs = [ModelSpec("one", ("score=7",), seeds=2), ModelSpec("two", ("score=8",), seeds=1)]
    runner.train_missing(specs)
    runner.train_missing([*specs, specs[0]])
    assert (tmp_path / "log").read_text() == 3 * "trained "
    assert [run.bleu("test") for run in runner.trained(specs[0])] == [7.0, 7.0]


def test_other_options_are_another_model(runner: ExperimentRunner, tmp_path: Path) -> None:
    runner.train_missing([ModelSpec("one", ("score=7",), seeds=2)])
    runner.train_missing([ModelSpec("one", ("score=9",), seeds=2)])
    assert (tmp_path / "log").read_text() == 4 * "trained "


def test_failed_training_is_reported_with_its_output(runner: ExperimentRunner) -> None:
    with pytest.raises(HeedError, match="out of luck"):
        runner.train_missing([ModelSpec("bad", ("fail=1",), seeds=1)])


def test_trained_model_reads_its_run_folder(tmp_path: Path) -> None:
    (tmp_path / "translations").mkdir()
    (tmp_path / "translations" / "test.src").write_text("a\u2028b\nc\n")
    (tmp_path / "metrics.csv").write_text("step,loss,valid_bleu\n1,2.5,\n2,2.0,10\n")
    (tmp_path / "results.json").write_text(json.dumps({"valid": {"bleu": 1.5}, "tests": {"long": {"bleu": 2.5}}}))
    run = TrainedModel("name", 1, tmp_path)
    assert run.lines("test", "src") == ["a\u2028b", "c"]
    assert run.curve("loss") == [(1, 2.5), (2, 2.0)]
    assert run.curve("valid_bleu") == [(2, 10)]
    assert (run.bleu("valid"), run.bleu("long")) == (1.5, 2.5)


def test_values_over_seeds() -> None:
    assert plain(Values([1.0, 3.0])) == {"mean": 2.0, "sd": pytest.approx(2**0.5), "values": [1.0, 3.0]}
    assert plain(Values([1.0]))["sd"] is None
    assert f"{Values([1.0, 3.0]):.1f}" == "2.0 ± 1.4"
    assert f"{Values([1.0]):.1f}" == "1.0"
