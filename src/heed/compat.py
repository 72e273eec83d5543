"""Private interfaces of libraries, one function each. tests/test_compat.py fails when a library changes one of them."""

import threading
from collections.abc import Sequence
from subprocess import Popen
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

# ---- Lightning


def call_after_closure(precision: Any, module: Any, optimizer: Optimizer) -> None:
    """Run the hooks between the backward pass and an optimizer step (Lightning 2.6: ``Precision._after_closure``)."""
    precision._after_closure(module, optimizer)


def fit_progress(trainer: Any) -> dict[str, Any]:
    """The counters of the training loop as checkpoints store them (Lightning 2.6: ``Trainer.fit_loop``)."""
    progress: dict[str, Any] = trainer.fit_loop.state_dict()
    return progress


def take_child_processes() -> list[Popen[bytes]]:
    """Remove and return the processes that Lightning's launcher watches (Lightning 2.6: ``_ChildProcessObserver``).

    Lightning kills this process when one that it watches fails.
    """
    taken: list[Popen[bytes]] = []
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            watched: list[Popen[bytes]] = thread._child_processes  # type: ignore[attr-defined]
            taken += watched
            watched.clear()
    return taken


def uncount_started_batch(trainer: Any) -> None:
    """Undo the count of a started batch that is not trained on (Lightning 2.6: ``epoch_loop.batch_progress``)."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    progress.total.ready -= 1
    progress.current.ready -= 1


# ---- torch


def lerp_all_(tensors: Sequence[Tensor], ends: Sequence[Tensor], weight: float) -> None:
    """Move every tensor by ``weight`` towards its end, in place (torch 2.8: ``torch._foreach_lerp_``)."""
    torch._foreach_lerp_(list(tensors), list(ends), weight)


def reads_found_inf(optimizer: Optimizer) -> bool:
    """Whether a step changes nothing where ``optimizer.found_inf`` is 1 (torch 2.8: ``_step_supports_amp_scaling``).

    This is the contract between GradScaler and fused optimizers: their kernels read the flag on the device.
    """
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))
