"""Which trials a worker claims, and how their runs end them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import optuna
import pytest
from hydra.types import HydraContext
from omegaconf import OmegaConf
from optuna.trial import TrialState

from heed.errors import HeedError
from heed.runs.folder import locked
from heed.sweep import search
from heed.sweep.plan import GRID_SAMPLER, Plan, SweepSettings
from heed.sweep.search import StudyWorker
from heed.sweep.space import read_space


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A search over a grid of three by two points."""
    plan = Plan.__new__(Plan)
    plan.settings = SweepSettings(
        objective="valid.bleu", n_trials=2, space={}, sampler={"_target_": GRID_SAMPLER}, pruner=None,
        workers=1, confirm="2x2", heartbeat=10, trial=None,
    )  # fmt: skip
    plan.config = OmegaConf.create({"seed": 1})
    plan.folder, plan.name = tmp_path / "study", "study"
    plan.space, plan.fixed = read_space({"a": "choice(1,2,3)", "b": "range(0,2)"}, [])
    plan.points, plan.is_grid = plan.space.finite_points(str), True
    plan.pruner, plan.maximize = optuna.pruners.NopPruner(), True
    plan.count, plan.seeds = 2, range(2, 4)
    return plan


def work_on(plan: Plan) -> StudyWorker:
    return StudyWorker(plan, HydraContext.__new__(HydraContext), lambda: None)


def test_two_workers_take_every_point_of_a_grid_once_and_confirm_the_best(plan: Plan) -> None:
    workers = [work_on(plan) for _ in range(2)]
    taken = []
    for number in range(6):
        study, trial = workers[number % 2].study, workers[number % 2]._claim()
        assert trial is not None
        taken.append(trial.params)
        assert trial.user_attrs["folder"] == str(number)
        assert trial.user_attrs["overrides"] == [f"{name}={value}" for name, value in trial.params.items()]
        if number == 2:
            study.fail(trial, "bad combination")
        else:
            study.study.tell(trial, float(number))
    assert taken == plan.points

    confirmed = []
    for number in range(4):
        assert not any(worker.is_finished() for worker in workers)
        trial = workers[number % 2]._claim()
        assert trial is not None
        confirmed.append(trial.user_attrs["folder"])
        values = [f"{name}={value}" for name, value in trial.params.items()]
        assert trial.user_attrs["overrides"] == [*values, f"seed={2 + number % 2}"]
        workers[0].study.study.tell(trial, 9.0)
    assert confirmed == ["confirm/5_seed2", "confirm/5_seed3", "confirm/4_seed2", "confirm/4_seed3"]
    assert workers[1].is_finished()
    assert workers[1]._claim() is None
    assert [trial.number for trial in workers[0].candidates()] == [5, 4], "their repetitions are no candidates"


def test_a_run_ends_its_trial(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = work_on(plan)

    def end_with(result: Any) -> tuple[str, Any]:
        def launch(*_: Any) -> Any:
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(worker, "_launch", launch)
        claimed = worker._claim()
        assert claimed is not None
        reason = worker._run(claimed)
        return reason, worker.study.study.trials[claimed.number]

    reason, trial = end_with([2.5])
    assert (reason, trial.state, trial.values) == ("", TrialState.COMPLETE, [2.5])
    assert end_with(None)[1].state == TrialState.PRUNED
    reason, trial = end_with(RuntimeError("out of\nmemory"))
    assert (reason, trial.state, trial.user_attrs["reason"]) == ("out of memory", TrialState.FAIL, "out of memory")
    with pytest.raises(KeyboardInterrupt):
        end_with(KeyboardInterrupt())
    assert [trial.state for trial in worker.study.study.trials][3:] == [TrialState.FAIL, TrialState.WAITING]
    assert worker._claim() is not None


def test_launchers_of_jobs_are_for_grids() -> None:
    choices = {"hydra/launcher": "submitit_slurm"}
    config = OmegaConf.create({"sweep": {}, "hydra": {"runtime": {"choices": choices}}})
    with pytest.raises(HeedError, match=r"hydra/launcher=submitit_slurm is for grids.*sweep\.workers=N"):
        Plan([], config=config, config_loader=None)


def test_a_worker_that_dies_while_it_claims_loses_no_point_of_a_grid(plan: Plan) -> None:
    worker = work_on(plan)
    study = worker.study.study
    study._storage.create_new_trial(study._study_id)
    taken = []
    while not worker.study.is_finished():
        trial = worker._claim()
        assert trial is not None
        taken.append(trial.params)
        study.tell(trial, 1.0)
    assert taken == plan.points


def test_a_worker_waits_for_the_results_of_a_silent_one(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "POLL_SECONDS", 0.05)
    worker = work_on(plan)
    trial = worker._claim()
    assert trial is not None
    folder = plan.folder / trial.user_attrs["folder"]
    with locked(folder):
        run = Thread(target=worker._run, args=(trial,))
        run.start()
        run.join(0.3)
        assert run.is_alive()
        (folder / "results.json").write_text(json.dumps({"valid": {"bleu": 3.0}}))
    run.join(60)
    assert worker.study.study.trials[trial.number].values == [3.0]


@pytest.mark.parametrize("sampler", ["RandomSampler", "TPESampler", "NSGAIISampler"])
def test_no_point_of_a_finite_space_is_tried_twice(plan: Plan, sampler: str) -> None:
    conditional = {"a": "choice(1,2)", "b": "range(0.1,0.5,0.1)", "a=1": {"c": "choice(x,y)"}}
    plan.space, plan.fixed = read_space(conditional, [])
    plan.points, plan.is_grid = plan.space.finite_points(str), False
    assert len(plan.points) == 4 * (2 + 1)
    plan.settings = replace(plan.settings, n_trials=50, sampler={"_target_": f"optuna.samplers.{sampler}"})
    workers, taken = [work_on(plan) for _ in range(2)], list[tuple[str, ...]]()
    while not workers[0].study.is_finished():
        study, trial = workers[len(taken) % 2].study, workers[len(taken) % 2]._claim()
        assert trial is not None
        taken.append(tuple(trial.user_attrs["overrides"]))
        if len(taken) == 3:
            study.fail(trial, "bad combination")
        else:
            study.study.tell(trial, float(len(trial.params)))
    assert sorted(taken) == sorted(tuple(plan.space.resolve(point, str)[0]) for point in plan.points)


def test_a_space_with_a_continuous_range_has_no_list_of_points() -> None:
    assert read_space({"a": "choice(1,2)", "b": "interval(0.0,1.0)"}, [])[0].finite_points(str) == []
    assert read_space({"a": "range(0,200)", "b": "range(0,200)"}, [])[0].finite_points(str) == []


@pytest.mark.parametrize("is_windows", [True, False])
def test_on_windows_the_workers_of_a_search_can_save_a_checkpoint_at_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_windows: bool
) -> None:
    called = []

    class Worker:
        def __getattr__(self, name: str) -> Callable[[], None]:
            return lambda: called.append(name)

    def press_ctrl_c(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "WINDOWS", is_windows)
    monkeypatch.setattr(search, "_start", lambda *_: Worker())
    monkeypatch.setattr(search.time, "sleep", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        search.run_workers(1, tmp_path, watch=lambda: None)
    assert called == ["poll", *([] if is_windows else ["terminate"]), "wait"]
