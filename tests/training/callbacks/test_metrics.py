"""What a run prints before, during and after training."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from heed.training.trainer import resolve_precision

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=16",
        "model.d_model=16", "trainer=cpu", "batching.batch_tokens=200", "trainer.validate_every=100",
        "trainer.log_every=2", "callbacks.attention_maps=null"]  # fmt: skip


def test_a_run_prints_its_plan_its_progress_and_its_results(
    run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run("printed", *TINY, "trainer.max_steps=null", "trainer.max_epochs=2")
    printed = capsys.readouterr().err
    results = json.loads((folder / "results.json").read_text())
    before, after = re.split(r"\nTraining: (?=\d+%)", printed)
    assert "synthetic, en → de; pairs: train 60, valid 10, test 6, long 4;" in before
    assert f"rnn, {results['params']:,} parameters, on 1 × cpu in {resolve_precision('auto', 'cpu')}" in before
    assert str(folder) in before
    # The number of steps is an estimate, because the tokens of a step vary around batch_tokens.
    (planned,) = re.findall(r"about (\d+) steps", before)
    assert int(planned) == pytest.approx(results["steps"], rel=0.25)
    # stderr is not a terminal here: a short training gets one line, about the first loss.
    assert re.match(r"\d+%, 2/\d+ steps, .*, about \d+:\d\d left, loss .*, [\d,]+ tokens/s, epoch 0, lr .*\n", after)
    assert f"for {results['steps']} steps ({results['epochs']} epochs)" in after
    assert f"BLEU {results['test']['bleu']:6.2f}" in after
