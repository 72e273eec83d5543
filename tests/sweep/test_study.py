"""Studies that workers share: budgets without a lock, dead and stopped workers, samplers that see past results."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.samplers import RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState

from heed.errors import HeedError
from heed.sweep.samplers import GridSampler, MakeSampler
from heed.sweep.space import read_space, suggest_with
from heed.sweep.study import SharedStudy, default_storage, open_storage, original_number, send_heartbeats

SPACE, _ = read_space({"lr": "tag(log, interval(1e-5, 1e-1))", "dropout": "interval(0, 0.9)", "norm": "pre,post"}, [])


def join(
    folder: Path, *, budget: int, heartbeat: int = 1, seed: int = 0, counts_failed: bool = False, **attributes: Any
) -> SharedStudy:
    return SharedStudy.join(
        open_storage(default_storage(folder), heartbeat=heartbeat),
        "study",
        directions=["maximize"],
        attributes={"n_trials": budget, **attributes},
        pruner=optuna.pruners.NopPruner(),
        budget=budget,
        counts_failed=counts_failed,
        seed=seed,
    )


def draw(trial: Trial) -> dict[str, Any]:
    SPACE.overrides(suggest_with(trial), str)
    if "folder" not in trial.user_attrs:
        trial.set_user_attr("folder", str(trial.number))
    return trial.params


def random_sampler(seed: int) -> RandomSampler:
    return RandomSampler(seed=seed)


def work_until_done(folder: Path, budget: int) -> None:
    """Claim and finish trials as a worker does, as fast as possible."""
    shared = join(folder, budget=budget)
    while not shared.is_finished():
        shared.recover()
        if trial := shared.claim(random_sampler):
            draw(trial)
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
    shared = join(tmp_path, budget=budget)
    states = [chain[-1].state for chain in shared.trials().values()]
    assert states.count(TrialState.COMPLETE) == budget
    assert {chain[-1].user_attrs.get("reason") for chain in shared.trials().values()} <= {None, "surplus"}


def test_two_claims_of_the_last_trial_in_one_moment(tmp_path: Path) -> None:
    """Whatever a second worker saw before it asked, the trial with the higher number is given up."""
    one, two = join(tmp_path, budget=1), join(tmp_path, budget=1)
    claimed: list[Trial | None] = []

    def claim_in_between(seed: int) -> RandomSampler:
        if not claimed:  # one has seen a free trial, and now two is faster
            claimed.append(None)
            claimed[0] = two.claim(random_sampler)
        return RandomSampler(seed=seed)

    late = one.claim(claim_in_between)
    assert late is None
    assert claimed[0] is not None
    assert [trial.state for trial in one.study.trials] == [TrialState.RUNNING, TrialState.FAIL]
    assert one.used() == 1


def _die_in_mid_trial(folder: Path) -> None:
    shared = join(folder, budget=2)
    trial = shared.claim(random_sampler)
    assert trial is not None
    draw(trial)
    trial.report(0.5, 10)
    with send_heartbeats(shared.study._storage, trial._trial_id):  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_trial_of_a_killed_worker_is_continued(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=2)
    worker = multiprocessing.get_context("fork").Process(target=_die_in_mid_trial, args=(tmp_path,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    shared.recover()
    assert [trial.state for trial in shared.study.trials] == [TrialState.RUNNING], "it is silent for too short a time"
    assert shared.used() == 1

    deadline = time.monotonic() + 30
    while not shared.study.get_trials(states=(TrialState.WAITING,)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
        shared.recover()
    dead = shared.study.trials[0]
    assert dead.state == TrialState.FAIL
    assert shared.used() == 1, "the trial and its continuation are one"
    trial = shared.claim(random_sampler)
    assert trial is not None
    assert original_number(shared.study._storage.get_trial(trial._trial_id)) == 0
    assert draw(trial) == dead.params
    assert trial.user_attrs["folder"] == "0"
    assert shared.study.trials[trial.number].intermediate_values == {10: 0.5}


def test_a_worker_that_dies_before_its_first_sign_of_life(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=1)
    shared.study._storage.create_new_trial(shared.study._study_id)
    shared.recover()
    assert shared.study.trials[0].state == TrialState.RUNNING
    time.sleep(6.5)
    shared.recover()
    assert [trial.state for trial in shared.study.trials] == [TrialState.FAIL, TrialState.WAITING]


def test_a_trial_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=1)
    for _ in range(4):
        assert shared.claim(random_sampler) is not None
        deadline = time.monotonic() + 30
        while shared.study.get_trials(states=(TrialState.RUNNING,)):
            assert time.monotonic() < deadline
            time.sleep(0.2)
            shared.recover()
    assert shared.claim(random_sampler) is None
    assert shared.is_finished()


def test_a_stopped_trial_waits_for_the_next_worker_and_a_failed_one_does_not(tmp_path: Path) -> None:
    shared = join(tmp_path, budget=2)
    stopped, failed = shared.claim(random_sampler), shared.claim(random_sampler)
    assert stopped is not None
    assert failed is not None
    shared.release(stopped._trial_id)
    shared.release(stopped._trial_id)  # a second worker does the same
    shared.fail(failed, "out of memory")
    assert shared.used() == 1
    continued = shared.claim(random_sampler)
    assert continued is not None
    assert original_number(shared.study._storage.get_trial(continued._trial_id)) == stopped.number
    assert shared.claim(random_sampler) is not None, "a failed trial does not use up the budget"
    assert shared.claim(random_sampler) is None


def test_a_study_is_joined_only_with_the_same_attributes(tmp_path: Path) -> None:
    join(tmp_path, budget=2, space={"lr": "interval(0, 1)"})
    join(tmp_path, budget=5, space={"lr": "interval(0, 1)"})  # more trials later
    with pytest.raises(HeedError, match="exists with another space"):
        join(tmp_path, budget=2, space={"lr": "interval(0, 2)"})


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+psycopg://nobody:secret@127.0.0.1:1/none", r"nobody:\*\*\*@127.0.0.1:1/none cannot be used"),
        ("no url", "cannot be used"),
        ("sqlite:////nowhere/study.db", "cannot be used"),
        ("mysql+nodriver://u@h/n", "cannot be used|is not installed"),
    ],
)
def test_storages_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(HeedError, match=message) as raised:
        open_storage(url, heartbeat=10)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_grid_takes_every_point_once_on_two_workers(tmp_path: Path) -> None:
    space, _ = read_space({"a": "choice(1,2,3)", "b": "range(0,2)"}, [])
    points = list(space.points(str))
    workers = [join(tmp_path, budget=len(points), counts_failed=True) for _ in range(2)]

    def grid_of(shared: SharedStudy) -> MakeSampler:
        def position(trial: FrozenTrial) -> int:
            return shared.position(original_number(trial))

        return lambda _: GridSampler(points=points, position=position)

    taken = []
    for number in range(len(points)):
        shared = workers[number % 2]
        trial = shared.claim(grid_of(shared))
        assert trial is not None
        space.overrides(suggest_with(trial), str)
        taken.append(trial.params)
        if number == 2:
            shared.fail(trial, "bad combination")
    assert taken == points
    assert workers[0].claim(random_sampler) is None


def _score(params: dict[str, Any]) -> float:
    import math

    return -((math.log10(params["lr"]) + 3) ** 2) - 4 * (params["dropout"] - 0.3) ** 2 - (params["norm"] == "post")


def _best_of_search(folder: Path, make_sampler: Callable[[int], Any], seed: int) -> float:
    """Return the best score of 40 trials that two workers share, both of which are replaced in the middle."""
    folder.mkdir()
    best = []
    for half in (20, 40):
        workers = [join(folder, budget=40, seed=seed) for _ in range(2)]
        while workers[0].used() < half:
            trials = [worker.claim(make_sampler) for worker in workers]
            for worker, trial in zip(workers, trials, strict=True):
                assert trial is not None
                best.append(_score(draw(trial)))
                worker.study.tell(trial, best[-1])
    assert len(best) == 40
    return max(best)


@pytest.mark.slow
@pytest.mark.full
def test_tpe_learns_from_past_trials_across_workers_and_restarts(tmp_path: Path) -> None:
    """It finds better values than random search: one-sided Wilcoxon signed-rank test over ten seeds, p < 0.05."""
    differences = [
        _best_of_search(tmp_path / f"tpe{seed}", lambda s: TPESampler(seed=s), seed)
        - _best_of_search(tmp_path / f"random{seed}", random_sampler, seed)
        for seed in range(10)
    ]
    ranks = sorted(range(10), key=lambda i: abs(differences[i]))
    statistic = sum(rank for rank, i in enumerate(ranks, start=1) if differences[i] > 0)
    # The exact distribution of the statistic if each sign were a fair coin.
    as_large = sum(sum(rank for rank in range(1, 11) if signs >> (rank - 1) & 1) >= statistic for signs in range(2**10))
    assert as_large / 2**10 < 0.05, (fmean(differences), differences)
