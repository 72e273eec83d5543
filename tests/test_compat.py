"""What some systems lack is replaced; the private interfaces of libraries still exist and work as heed expects."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import lightning as L
import optuna
import pytest
import torch
from datasets import Dataset
from hydra.core.utils import JobReturn, JobStatus
from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from lightning.pytorch.plugins.precision import MixedPrecision
from sacrebleu.metrics import BLEU, CHRF
from torch import nn
from torch.utils.hooks import RemovableHandle

from heed import compat

# ---- operating systems


def test_usable_cores_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert compat.usable_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert compat.usable_cores() == 7


def test_windows_waits_until_a_replaced_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (new := tmp_path / "new").touch()
    readers, rename = ["a virus scanner"], Path.replace

    def replace(source: Path, target: Path) -> Path:
        if readers:
            raise PermissionError
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(PermissionError):
        compat.replace(new, tmp_path / "old")
    monkeypatch.setattr(compat, "WINDOWS", True)
    monkeypatch.setattr(compat.time, "sleep", lambda seconds: readers.clear())
    compat.replace(new, tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_any_character_is_printed(monkeypatch: pytest.MonkeyPatch, stream: str, encoding: str) -> None:
    for is_windows in (False, True):
        monkeypatch.setattr(compat, "WINDOWS", is_windows)
        pipe = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
        monkeypatch.setattr(sys, stream, pipe)
        compat.print_any_character()
        print("a → b", end="", file=getattr(sys, stream))
        expected = "a → b".encode() if is_windows or encoding == "utf-8" else b"a \\u2192 b"
        assert pipe.buffer.getvalue() == expected  # type: ignore[attr-defined]


# ---- hydra


def test_hydra_job_error_is_the_exception_of_a_failed_job(capsys: pytest.CaptureFixture[str]) -> None:
    job, error = JobReturn(), ValueError("x")
    job.return_value = error
    job.status = JobStatus.FAILED
    assert compat.hydra_job_error(job) is error
    with pytest.raises(ValueError, match="x"):
        _ = job.return_value  # the public property, which also prints
    assert capsys.readouterr().err


# ---- datasets


def test_dataset_digest_depends_on_the_content() -> None:
    first, other = (Dataset.from_dict({"en": [text]}) for text in ("a", "b"))
    assert compat.dataset_digest(first) == compat.dataset_digest(Dataset.from_dict({"en": ["a"]}))
    assert compat.dataset_digest(first) != compat.dataset_digest(other)


# ---- Lightning


def test_call_after_closure_runs_the_hook_before_an_optimizer_step() -> None:
    called = []

    class Module(L.LightningModule):
        def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
            called.append(optimizer)

    module = Module()
    module.trainer = L.Trainer(accelerator="cpu", barebones=True)
    module.trainer.strategy.connect(module)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    compat.call_after_closure(MixedPrecision("bf16-mixed", "cpu"), module, optimizer)
    assert called == [optimizer]


def test_take_child_processes_empties_the_list_that_lightning_watches() -> None:
    with Popen(["sleep", "60"]) as process:
        try:
            launched = [process]
            # If the list is not emptied, the observer kills main_pid: a process that may end.
            _ChildProcessObserver(main_pid=process.pid, child_processes=launched, sleep_period=1).start()
            assert compat.take_child_processes() == [process]
            assert launched == []
        finally:
            process.kill()


def test_uncount_started_batch_takes_back_one_started_batch() -> None:
    trainer = L.Trainer(accelerator="cpu", barebones=True)
    trainer.fit_loop.epoch_loop.batch_progress.increment_ready()
    compat.uncount_started_batch(trainer)
    assert trainer.fit_loop.state_dict() == L.Trainer(accelerator="cpu", barebones=True).fit_loop.state_dict()


def test_skip_sigterm_exchange_leaves_out_what_a_step_calls() -> None:
    trainer = L.Trainer(accelerator="cpu", barebones=True)
    loop = trainer.fit_loop.epoch_loop
    name = "_broadcast_sigterm_tensor"
    assert name in type(loop).advance.__code__.co_names
    before = getattr(loop, name)
    compat.skip_sigterm_exchange(trainer)
    assert getattr(loop, name) != before
    assert getattr(loop, name)() is None


# ---- optuna


def test_heartbeats_of_a_trial_are_recorded_until_the_end_of_the_block(tmp_path: Path) -> None:
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'study.db'}", heartbeat_interval=1, grace_period=2)
    trial = storage.create_new_trial(storage.create_new_study([optuna.study.StudyDirection.MINIMIZE]))
    with compat.optuna_heartbeats(trial, storage):
        time.sleep(3.5)
        assert storage._get_stale_trial_ids(1) == []
    time.sleep(3.5)
    assert storage._get_stale_trial_ids(1) == [trial]


# ---- sacrebleu


def test_sacrebleu_statistics_are_the_counts_of_each_sentence() -> None:
    hypotheses, references = ["a b c", "a"], ["a b c d", "b"]
    # Lengths of hypothesis and reference, matching n-grams and all n-grams of the hypothesis for n = 1 to 4.
    expected = [[3, 4, 3, 2, 1, 0, 3, 2, 1, 0], [1, 1, 0, 0, 0, 0, 1, 0, 0, 0]]
    assert compat.sacrebleu_sentence_statistics(BLEU(force=True), hypotheses, references) == expected
    # For n = 1 to 6: character n-grams of the hypothesis, of the reference, and the matching ones.
    chrf = compat.sacrebleu_sentence_statistics(CHRF(), hypotheses, references)
    assert [row[:6] for row in chrf] == [[3, 4, 3, 2, 3, 2], [1, 1, 0, 0, 0, 0]]
    assert {len(row) for row in chrf} == {18}


# ---- torch


def test_descend_all_decays_and_steps_in_place() -> None:
    for decay in (0.5, torch.tensor(0.5)):
        tensors = [torch.tensor([4.0]), torch.tensor([2.0, 8.0])]
        compat.descend_all_(tensors, [torch.tensor([1.0]), torch.tensor([0.0, 2.0])], decay=decay, step_size=3.0)
        assert [tensor.tolist() for tensor in tensors] == [[-1.0], [1.0, -2.0]]


def test_a_fused_optimizer_reads_found_inf_and_then_changes_nothing() -> None:
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    assert compat.reads_found_inf(optimizer)
    optimizer.found_inf = torch.ones(())  # type: ignore[attr-defined]
    optimizer.step()
    assert torch.equal(parameter, torch.ones(3))


def test_an_optimizer_that_is_not_fused_does_not_read_found_inf() -> None:
    assert not compat.reads_found_inf(torch.optim.AdamW([nn.Parameter(torch.ones(3))], fused=False))


@pytest.mark.skipif(not compat.has_onednn_linear(), reason="this torch was built without oneDNN")
@pytest.mark.parametrize("biased", [True, False])
def test_onednn_linear_is_the_linear_map(biased: bool) -> None:
    weight, bias = torch.randn(11, 7), torch.randn(11) if biased else None
    x = torch.randn(3, 7)
    with torch.inference_mode():
        found = compat.onednn_linear(weight)(x, bias)
    torch.testing.assert_close(found, torch.nn.functional.linear(x, weight, bias))


def test_norms_are_those_of_each_tensor() -> None:
    tensors = [torch.tensor([3.0, 4.0]), torch.full((2, 2), 1.0)]
    assert [float(norm) for norm in compat.norms(tensors)] == [5.0, 2.0]


def _global_hook(linear: nn.Linear) -> Any:
    return nn.modules.module.register_module_forward_pre_hook(lambda *_: None)


MODIFICATIONS: dict[str, Callable[[nn.Linear], Any]] = {
    "hook": lambda linear: linear.register_forward_hook(lambda *_: None),
    "hook before": lambda linear: linear.register_forward_pre_hook(lambda *_: None),
    "hook of all modules": _global_hook,
    "parametrization": lambda linear: nn.utils.parametrize.register_parametrization(linear, "weight", nn.ReLU()),
    "method": lambda linear: setattr(linear, "forward", linear.forward),
    "class": lambda linear: setattr(linear, "__class__", type("Adapter", (nn.Linear,), {})),
}


@pytest.mark.parametrize("what", MODIFICATIONS)
def test_modified_modules_are_noticed(what: str) -> None:
    linear = nn.Linear(3, 3)
    assert compat.is_unmodified(linear)
    handle = MODIFICATIONS[what](linear)
    assert not compat.is_unmodified(linear)
    if isinstance(handle, RemovableHandle):
        handle.remove()
        assert compat.is_unmodified(linear)


def test_processes_are_running_until_they_end() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert compat.is_running(process.pid)
    assert not compat.is_running(process.pid)
