"""The default models translate the sentences that README shows."""

from pathlib import Path

import headline
import pytest
from trainings import train


@pytest.mark.full
@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_the_default_models_reach_their_aims(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    train(run, f"model={model}", "seed=1")
    assert headline.score(run).misses == []
