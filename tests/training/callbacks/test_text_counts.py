"""Counts and losses of the texts of a mixture, in one process and in several, with and without interruption."""

from copy import deepcopy
from types import SimpleNamespace
from unittest.mock import Mock

import lightning as L
import pytest
import torch

from heed.data.steps.stream import StepShard
from heed.training.callbacks import metrics
from heed.training.callbacks.metrics import CountTexts

STEPS = [((n % 4, 5 * (n % 4) + 1), (3, 11 + n)) for n in range(1, 14)]
"""Sentences and target tokens of each corpus, in every step."""


def take_steps(
    callback: CountTexts,
    first: int,
    last: int,
    *,
    part: float = 1.0,
    log_every: int = 5,
    processes: int = 1,
    skipped: frozenset[int] = frozenset(),
) -> list[dict[str, float]]:
    """Count some steps that this process shares with others, and return what is logged."""
    logged: list[dict[str, float]] = []
    logger = SimpleNamespace(log_metrics=lambda metrics, step: logged.append({"step": step, **metrics}))
    for number in range(first, last + 1):
        nll = torch.tensor([part * 0.3 * number, part * 7.1 / number])
        trainer = Mock(
            spec=L.Trainer, global_step=number, loggers=[logger], log_every_n_steps=log_every, world_size=processes
        )
        shard = StepShard(0, number, 0, 0, 0, (), last=False, texts=STEPS[number - 1])
        ran = float(number not in skipped)
        outputs = {"nll_of_texts": ran * nll, "tokens": torch.tensor(ran * sum(t for _, t in STEPS[number - 1]))}
        callback.on_train_batch_end(trainer, L.LightningModule(), outputs, shard, number)
    return logged


def resume(callback: CountTexts, *, rank: int = 0) -> CountTexts:
    """Return a new callback with the state of another one."""
    resumed = CountTexts(callback.names)
    resumed.load_state_dict(deepcopy(callback.state_dict()))
    start(resumed, rank=rank)
    return resumed


def start(callback: CountTexts, *, rank: int = 0) -> None:
    callback.on_train_start(Mock(spec=L.Trainer, is_global_zero=rank == 0), L.LightningModule())


@pytest.mark.parametrize("stop", [1, 5, 7, 12])
def test_a_resumed_run_reports_the_losses_of_an_uninterrupted_one(stop: int) -> None:
    whole, first = CountTexts(["a", "b"]), CountTexts(["a", "b"])
    start(whole)
    start(first)
    logged = take_steps(whole, 1, 13)
    before = take_steps(first, 1, stop)
    resumed = resume(first)
    assert [*before, *take_steps(resumed, stop + 1, 13)] == logged
    assert resumed.results() == whole.results()
    assert [metrics["step"] for metrics in logged] == [5, 10]


def test_a_skipped_step_counts_as_drawn_and_not_in_the_loss() -> None:
    counted, skipping = CountTexts(["a", "b"]), CountTexts(["a", "b"])
    take_steps(counted, 1, 4)
    take_steps(skipping, 1, 5, skipped=frozenset({5}))
    counted._report(Mock(spec=L.Trainer, global_step=4, loggers=[]))
    assert skipping.nll == pytest.approx(counted.nll)
    assert skipping.tokens.tolist() == (counted.tokens + torch.tensor([t for _, t in STEPS[4]])).tolist()


def test_losses_are_summed_over_processes_before_and_after_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CountTexts(["a", "b"])
    take_steps(whole, 1, 5)
    # Only the first process reports here, after the other one has counted the step.
    ranks = [CountTexts(["a", "b"]) for _ in range(2)]
    monkeypatch.setattr(metrics, "sum_over_processes", lambda _: torch.stack([rank._sums for rank in ranks]).sum(0))
    for rank, part, log_every in ((1, 0.75, 100), (0, 0.25, 5)):
        take_steps(ranks[rank], 1, 3, part=part, log_every=log_every, processes=2)
    ranks[:] = [resume(callback, rank=rank) for rank, callback in enumerate(ranks)]
    for rank, part, log_every in ((1, 0.75, 100), (0, 0.25, 5)):
        take_steps(ranks[rank], 4, 5, part=part, log_every=log_every, processes=2)
    assert ranks[0].nll == pytest.approx(whole.nll)


def test_texts_of_another_mixture_are_known_by_their_names() -> None:
    before = CountTexts(["news", "crawl"])
    start(before)
    take_steps(before, 1, 12)
    after = CountTexts(["new", "crawl", "news"])
    after.load_state_dict(deepcopy(before.state_dict()))
    start(after)
    nothing = {"sentences": 0, "tgt_tokens": 0, "nll": None}
    assert after.results() == {"new": nothing, **{name: before.results()[name] for name in ("crawl", "news")}}
    assert after._sums[:, 1:].flip(1).tolist() == before._sums.tolist()
    assert after._sums[:, 0].tolist() == [0, 0]
    fewer = CountTexts(["crawl"])
    fewer.load_state_dict(after.state_dict())
    assert fewer.results() == {"crawl": before.results()["crawl"]}
