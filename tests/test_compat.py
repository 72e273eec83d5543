"""The private interfaces behind `heed.compat` still exist and still do what heed needs."""

import sys
from subprocess import Popen

import lightning as L
import torch
from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from lightning.pytorch.plugins.precision import MixedPrecision
from torch import nn

from heed.compat import (
    call_after_closure,
    fit_progress,
    lerp_all_,
    reads_found_inf,
    take_child_processes,
    uncount_started_batch,
)

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
    call_after_closure(MixedPrecision("bf16-mixed", "cpu"), module, optimizer)
    assert called == [optimizer]


def test_fit_progress_counts_steps_and_batches() -> None:
    progress = fit_progress(L.Trainer(accelerator="cpu", barebones=True))
    assert progress["epoch_loop.batch_progress"]["total"]["ready"] == 0
    assert "epoch_loop.automatic_optimization.optim_progress" in progress


def test_take_child_processes_empties_the_list_that_lightning_watches() -> None:
    with Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            launched = [process]
            # If the list is not emptied, the observer kills main_pid: a process that may end.
            _ChildProcessObserver(main_pid=process.pid, child_processes=launched, sleep_period=1).start()
            assert take_child_processes() == [process]
            assert launched == []
        finally:
            process.kill()


def test_uncount_started_batch_takes_back_one_started_batch() -> None:
    trainer = L.Trainer(accelerator="cpu", barebones=True)
    trainer.fit_loop.epoch_loop.batch_progress.increment_ready()
    before = fit_progress(L.Trainer(accelerator="cpu", barebones=True))
    uncount_started_batch(trainer)
    assert fit_progress(trainer) == before


# ---- torch


def test_lerp_all_interpolates_in_place() -> None:
    tensors, ends = [torch.zeros(3), torch.ones(2, 2)], [torch.full((3,), 4.0), torch.full((2, 2), 5.0)]
    lerp_all_(tensors, ends, 0.25)
    assert torch.equal(tensors[0], torch.ones(3))
    assert torch.equal(tensors[1], torch.full((2, 2), 2.0))


def test_a_fused_optimizer_reads_found_inf_and_then_changes_nothing() -> None:
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    assert reads_found_inf(optimizer)
    optimizer.found_inf = torch.ones(())  # type: ignore[attr-defined]
    optimizer.step()
    assert torch.equal(parameter, torch.ones(3))


def test_an_optimizer_that_is_not_fused_does_not_read_found_inf() -> None:
    assert not reads_found_inf(torch.optim.AdamW([nn.Parameter(torch.ones(3))], fused=False))
