"""Studies that workers share: budgets without a lock, dead and stopped workers, samplers that see past results."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.samplers import RandomSampler
from optuna.trial import Trial, TrialState

from heed.compat import optuna_heartbeats
from heed.errors import HeedError
from heed.sweep.space import draw, read_space
from heed.sweep.study import SharedStudy, lock, open_storage
from tests.waiting import wait_for

SPACE, _ = read_space({"lr": "tag(log, interval(1e-5, 1e-1))", "dropout": "interval(0, 0.9)", "norm": "pre,post"}, [])


def join(folder: Path, *, budget: int, heartbeat: int = 1, **attributes: Any) -> SharedStudy:
    return SharedStudy.join(
        open_storage(folder, heartbeat=heartbeat),
        "study",
        {"n_trials": budget, "points": None, **attributes},
        maximize=True,
        pruner=optuna.pruners.NopPruner(),
    )


def claim(shared: SharedStudy, make_sampler: Callable[[int], Any] = RandomSampler) -> Trial | None:
    return shared.claim(make_sampler, lambda trial: draw(SPACE, trial, str))


def work_until_done(folder: Path, budget: int) -> None:
    """Claim and finish trials as a worker does, as fast as possible."""
    shared = join(folder, budget=budget)
    while not shared.is_finished():
        with lock(folder):
            trial = claim(shared)
        if trial:
            shared.study.tell(trial, float(os.getpid()))


def test_workers_that_race_finish_as_many_trials_as_asked_for(tmp_path: Path) -> None:
    budget = 12
    join(tmp_path, budget=budget)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work_until_done, args=(tmp_path, budget)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert [trial.state for trial in join(tmp_path, budget=budget).trials()] == ["complete"] * budget


def _die_in_mid_trial(folder: Path) -> None:
    shared = join(folder, budget=2)
    trial = claim(shared)
    assert trial is not None
    trial.report(0.5, 10)
    with optuna_heartbeats(trial._trial_id, shared.study._storage):
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_trial_of_a_killed_worker_is_continued(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=2)
    worker = multiprocessing.get_context("fork").Process(target=_die_in_mid_trial, args=(tmp_path,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    assert claim(shared) is not None
    assert claim(shared) is None, "the killed worker is silent for too short a time"
    trial = wait_for(lambda: claim(shared))
    dead, continued = shared.study.trials[0], shared.study.trials[trial.number]
    assert dead.state == TrialState.FAIL
    assert [each.number for each in shared.trials()] == [0, 1], "the trial and its continuation are one"
    assert continued.params == dead.params
    assert continued.user_attrs["folder"] == "0"
    assert continued.intermediate_values == {10: 0.5}


def test_a_trial_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=1)
    for _ in range(4):
        wait_for(lambda: claim(shared))
    while not shared.is_finished():
        time.sleep(0.2)
        assert claim(shared) is None
    assert [(trial.state, trial.reason) for trial in shared.trials()] == [("failed", "")]


def test_a_stopped_trial_waits_for_the_next_worker_and_a_failed_one_does_not(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=2)
    stopped, failed = claim(shared), claim(shared)
    assert stopped is not None
    assert failed is not None
    shared.release(stopped._trial_id)
    shared.release(stopped._trial_id)  # a second worker does the same
    shared.fail(failed, "out of memory")
    assert shared.left() == 1, "a failed trial does not use up the budget"
    continued = claim(shared)
    assert continued is not None
    assert continued.user_attrs["folder"] == str(stopped.number)
    assert claim(shared) is not None
    assert claim(shared) is None


def test_a_failed_trial_of_a_grid_is_not_replaced(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=1, points=1)
    trial = claim(shared)
    assert trial is not None
    shared.fail(trial, "out of memory")
    assert shared.is_finished()
    assert claim(shared) is None


def test_a_study_is_joined_only_with_the_same_attributes(tmp_path: Path) -> None:
    join(tmp_path, budget=2, space={"lr": "interval(0, 1)"})
    join(tmp_path, budget=5, space={"lr": "interval(0, 1)"})  # more trials later
    with pytest.raises(HeedError, match="exists with another space"):
        join(tmp_path, budget=2, space={"lr": "interval(0, 2)"})
