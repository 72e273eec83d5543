"""When a run ends: after its last step, when validations no longer improve, when a search finds it unpromising, or at a
signal: Ctrl-C (SIGINT) and the SIGTERM of schedulers.
"""

import math
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.callbacks import Callback
from torch import distributed

from heed.compat import (
    skip_sigterm_exchange,
    take_child_processes,
    uncount_started_batch,
    validate_before_first_step,
)
from heed.data.steps.stream import StepShard
from heed.options import AtLeast1
from heed.training.callbacks.checkpoints import Checkpoints

Report = Callable[[int, float], bool]
"""Takes an optimizer step and the metric there, and returns whether to end the run."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_STATUS = 130
"""The exit status of a program that Ctrl-C stopped, as shells report it."""


class FirstValidation(Callback):
    """Runs a validation, and so writes a checkpoint, before the first step: in fine-tuning, the start is step 0.

    It comes after the callbacks that a validation calls, except `Checkpoints`, which Lightning keeps last.
    """

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        validate_before_first_step(trainer)


class FinalValidation(Callback):
    """Runs a validation, and so writes a checkpoint, after the last step of a run of any length."""

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: StepShard, _: int) -> None:
        if batch.last or trainer.global_step == trainer.max_steps:
            # Lightning validates before it stops.
            trainer.should_stop = True


class EarlyStopping(Callback):
    """Stops after ``patience`` validations without an improvement; None: never.

    A validation improves if it is the best one by the `Selection` of `Checkpoints`, or if its loss is the lowest.
    Lightning's EarlyStopping compares one number: it would stop a model whose loss still falls while its BLEU stays at
    0.00, or varies by chance, as that of a weak model does until the learning rate is small.
    """

    def __init__(self, *, patience: AtLeast1 | None) -> None:
        self.patience = patience
        self.best: tuple[float, ...] | None = None
        self.lowest_loss = math.inf
        self.waited = 0
        """Validations since the last improvement."""

    def state_dict(self) -> dict[str, Any]:
        names = ("best", "lowest_loss", "waited")
        return {name: getattr(self, name) for name in names} if self.patience else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.waited = state_dict["best"], state_dict["waited"]
        self.lowest_loss = state_dict.get("lowest_loss", math.inf)  # older checkpoints do not have it

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._stop_if_due(trainer)  # the checkpoint may be that of the last validation

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.patience is None:
            return
        scores = pl_module.validation_scores
        key = trainer.checkpoint_callback.selection.key(scores)
        is_best = self.best is None or key > self.best
        self.waited = 0 if is_best or scores["loss"] < self.lowest_loss else self.waited + 1
        self.best = key if is_best else self.best
        self.lowest_loss = min(self.lowest_loss, scores["loss"])
        self._stop_if_due(trainer)

    def _stop_if_due(self, trainer: L.Trainer) -> None:
        if self.patience is not None and self.waited >= self.patience:
            trainer.should_stop = True


class Pruning(Callback):
    """Reports every validation to a search. If the search gives the run up, all processes stop after that validation.

    Args:
        metric: the validation metric to report: bleu, chrf or loss.
        report: asks the search; None in all processes but the first.
    """

    def __init__(self, metric: str, report: Report | None) -> None:
        self.metric, self.report = metric, report
        self.pruned_at: int | None = None
        """The step at which the search gave the run up, if it did."""

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        give_up = self.report is not None and self.report(trainer.global_step, pl_module.validation_scores[self.metric])
        # A run that ends anyway, after this validation, is complete.
        if trainer.strategy.broadcast(give_up) and not trainer.should_stop:
            self.pruned_at = trainer.global_step
            trainer.should_stop = True


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
