"""Training and caching the models of experiments."""

from pathlib import Path

import pytest
from experiments.runner import ExperimentRunner, ModelSpec

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


def test_failed_training_is_reported_with_its_output(runner: ExperimentRunner) -> None:
    with pytest.raises(HeedError, match="out of luck"):
        runner.train_missing([ModelSpec("bad", ("fail=1",), seeds=1)])
