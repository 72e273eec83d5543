"""What a run prints before, during and after training, and what its speed includes."""

import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from heed.evaluation.comet import comet
from heed.evaluation.metrics import METRICS
from heed.evaluation.scores import SystemOutput
from heed.runs.records import read_csv
from heed.runs.results import scores_by_split
from heed.training.callbacks import metrics
from heed.training.trainer import resolve_precision
from tests.evaluation.test_comet import install_comet, save_comet
from tests.finished import FinishedRun

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=16",
        "model.d_model=16", "trainer=cpu", "batching.batch_tokens=200", "trainer.validate_every=100",
        "trainer.log_every=2", "callbacks.attention_maps=null"]  # fmt: skip


def test_a_run_prints_its_plan_its_progress_and_its_results(finished: FinishedRun) -> None:
    results = json.loads((finished.folder / "results.json").read_text())
    before, after = re.split(r"\nTraining: +(?=\d+%)", finished.printed, maxsplit=1)
    assert "synthetic, en → de; pairs: train 60, valid 20, test 8, long 6;" in before
    assert f"rnn, {results['params']:,} parameters, on 1 × cpu in {resolve_precision('auto', 'cpu')}" in before
    assert str(finished.folder) in before
    assert "about 4 steps" in before
    # stderr is not a terminal here: a short training gets a line about the first loss.
    assert re.match(r"50% 2/4 \[.*<\d+:\d\d, .*, loss .*, [\d,]+ tokens/s, epoch 0, lr .*\]\n", after)
    assert f"for {results['steps']} steps ({results['epochs']} epochs)" in after
    assert f"BLEU {results['test']['bleu']:6.2f}" in after
    assert f"   ter {results['test']['metrics']['ter']['value']:.2f}   chrf++ " in after


def test_a_validation_is_reported_with_the_duration_of_the_run() -> None:
    scores = {"loss": 2.5, "bleu": 1.25, "chrf": 20.0}
    assert metrics.validation_line(0, scores, epoch=2, train_seconds=3723.0) == (
        "step      0  epoch 2  valid: loss 2.500  BLEU 1.25  chrF 20.00  after 1:02:03"
    )


def test_further_metrics_are_in_results_and_metrics(finished: FinishedRun) -> None:
    results = json.loads((finished.folder / "results.json").read_text())
    for split, scores in scores_by_split(results).items():
        hypotheses, references = (
            (finished.folder / "translations" / f"{split}.{name}").read_text(encoding="utf-8").split("\n")[:-1]
            for name in ("hyp", "ref")
        )
        output = SystemOutput(hypotheses=hypotheses, references=[references], tgt_lang="de")
        assert [*scores["metrics"]] == ["ter", "chrf++", "perplexity"]
        for name, metric in (("ter", METRICS["TER"]), ("chrf++", METRICS["chrF++"])):
            assert scores["metrics"][name] == asdict(metric(output))
        assert scores["metrics"]["perplexity"]["value"] == pytest.approx(math.exp(scores["loss"]))
    rows = [row for row in read_csv(finished.folder / "metrics.csv") if row["valid_bleu"]]
    assert rows
    for row in rows:
        assert float(row["valid_perplexity"]) == pytest.approx(math.exp(float(row["valid_loss"])), rel=1e-4)
        assert float(row["valid_ter"]) > 0


@pytest.mark.full
@pytest.mark.posix("the program of the tests is a script")
def test_comet_selects_and_stops(run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_comet(tmp_path, monkeypatch)
    model = save_comet(tmp_path / "comet")
    options = ["select=comet", f"metric.comet.name={model}", "callbacks.early_stopping.patience=1"]
    folder = run("comet", *TINY, *options, "trainer.max_steps=40", "trainer.validate_every=2")
    values = [float(row["valid_comet"]) for row in read_csv(folder / "metrics.csv") if row["valid_bleu"]]
    results = json.loads((folder / "results.json").read_text())
    assert results["select"] == "comet"
    assert results["selected_step"] == 2 * (values.index(max(values)) + 1)
    assert values[-1] <= max(values[:-1])
    assert results["steps"] == 2 * len(values) < 40
    lines = {
        name: (folder / "translations" / f"test.{name}").read_text().split("\n")[:-1] for name in ("src", "ref", "hyp")
    }
    output = SystemOutput(hypotheses=lines["hyp"], references=[lines["ref"]], sources=lines["src"])
    expected = comet(output, name=str(model))
    assert results["test"]["metrics"]["comet"]["value"] == pytest.approx(expected.value, abs=1e-6)
    assert results["test"]["metrics"]["comet"]["signature"] == expected.signature


@pytest.mark.full
def test_the_planned_number_of_steps_is_an_estimate(
    run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The tokens of a step vary around batch_tokens."""
    folder = run("printed", *TINY, "trainer.max_steps=null", "trainer.max_epochs=2")
    results = json.loads((folder / "results.json").read_text())
    (planned,) = re.findall(r"about (\d+) steps", capsys.readouterr().err)
    assert int(planned) == pytest.approx(results["steps"], rel=0.25)


class SlowCallback(Callback):
    """Takes half a second after every step."""

    def on_train_batch_end(self, *_: Any) -> None:
        time.sleep(0.5)


@pytest.mark.full
def test_the_speed_includes_waiting_for_the_device_and_callbacks_but_no_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heed.launch import train
    from heed.launch.compose import compose
    from heed.training.module import TranslationModule

    gather, evaluate = metrics.sum_over_processes, TranslationModule.on_validation_epoch_end

    def slow_device(sums: Tensor) -> Tensor:
        time.sleep(1)
        return gather(sums)

    def slow_validation(module: TranslationModule) -> None:
        time.sleep(4)
        evaluate(module)

    monkeypatch.setattr(metrics, "sum_over_processes", slow_device)
    monkeypatch.setattr(TranslationModule, "on_validation_epoch_end", slow_validation)
    options = [*TINY, "trainer.max_steps=4", "test=false", "logger=none", f"cache_dir={tmp_path}/cache",
               "search=greedy", "trainer.validate_every=2"]  # fmt: skip
    results = train(compose(options, folder=tmp_path), callbacks=[SlowCallback()]).results
    seconds = results["tokens"] / results["tokens_per_second"]
    # Two reports and the callback after all steps but the last before each validation.
    assert 2 * 1 + 2 * 0.5 < seconds < 2 * 4
