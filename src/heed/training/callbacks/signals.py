"""Stop a run at Ctrl-C (SIGINT) and at the SIGTERM of schedulers, after saving a checkpoint."""

import os
import signal
import threading
from types import FrameType
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.callbacks import Callback
from torch import distributed

from heed.compat import skip_sigterm_exchange, take_child_processes, uncount_started_batch
from heed.data.steps.stream import StepShard
from heed.training.callbacks.checkpoints import Checkpoints

SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_STATUS = 130
"""The exit status of a program that Ctrl-C stopped, as shells report it."""


class Interrupted(SystemExit):
    """Ends the program after a signal. It is not a KeyboardInterrupt, because Lightning catches that."""


class StopOnSignal(Callback):
    """At a signal, finishes the current step, saves a checkpoint and exits.

    A second signal exits immediately, except under torchrun, which repeats signals.

    Lightning saves nothing at SIGINT, and at SIGTERM it communicates inside the signal handler. Here all processes
    agree after every step whether one of them has received a signal. They exchange it over gloo, so that no process
    waits for its GPU, and all of them notice within a step if one has ended. If the step is followed by a validation,
    the validation comes first: a resumed run would not repeat it.

    This callback has to come after all callbacks whose state changes with a step. ``checkpoints`` saves the checkpoint.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self._is_stop_requested = False
        self._is_training = False
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._hosts: Any = None
        """The process group of the exchange; None: there is one process."""

    # ---- signal handlers

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._is_global_zero = trainer.is_global_zero
        self._previous_handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self._install_handlers()

    def _install_handlers(self, *_: Any) -> None:
        if threading.current_thread() is threading.main_thread():  # Python allows no other thread to do this
            for number in SIGNALS:
                signal.signal(number, self._handle_signal)

    on_test_start = _install_handlers

    def _restore_handlers(self, *_: Any, **__: Any) -> None:
        self._is_training = False
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._previous_handlers.items():
                signal.signal(number, handler)

    teardown = on_exception = _restore_handlers

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_stop_requested:
            if TorchElasticEnvironment.detect():
                return
            os._exit(EXIT_STATUS)
        self._is_stop_requested = True
        if not self._is_training:
            raise self._interruption()
        if self._is_global_zero:
            quit_now = "" if TorchElasticEnvironment.detect() else "; press Ctrl-C again to quit now"
            # Not print(), which is not reentrant: the signal may have interrupted a call of it.
            os.write(2, f"\nSaving after this step{quit_now}.\n".encode())

    def _interruption(self) -> Interrupted:
        # Status 0 in the other processes: Lightning's launcher kills all processes when one that it started fails.
        return Interrupted(EXIT_STATUS if self._is_global_zero else 0)

    def _is_stop_agreed(self) -> bool:
        """Return whether any process has received a signal. All processes have to call this."""
        request = torch.tensor(self._is_stop_requested, dtype=torch.int32)
        if self._hosts is not None:
            distributed.all_reduce(request, distributed.ReduceOp.MAX, group=self._hosts)
        return bool(request)

    # ---- hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._is_training = True
        self._install_handlers()  # again, because Lightning has installed its own
        skip_sigterm_exchange(trainer)
        self._hosts = distributed.new_group(backend="gloo") if trainer.world_size > 1 else None

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: Any, batch: StepShard, _: int) -> None:
        """Stop after the previous step, if requested. Lightning has finished counting that step only now."""
        if self._is_stop_agreed():
            # Otherwise a resumed run would validate one step too early.
            uncount_started_batch(trainer)
            self.checkpoints.save(trainer)
            raise self._interruption()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._is_training = False
        if self._is_stop_agreed():
            raise self._interruption()


def end_other_processes() -> None:
    """Kill the other processes of a failed job. Lightning would kill this one too, and with it the rest of a sweep."""
    for process in take_child_processes():
        process.kill()
        process.wait()
