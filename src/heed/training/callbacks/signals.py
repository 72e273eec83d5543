"""Ctrl-C, and the SIGTERM of schedulers: stop where nothing is lost."""

import os
import signal
import threading
from types import FrameType
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.data.datamodule import StepShard
from heed.training.callbacks.checkpoints import Checkpoints

SIGNALS = (signal.SIGINT, signal.SIGTERM)

STATUS = 130
"""The exit status of a program that Ctrl-C stopped, as shells report it."""


class Interrupted(SystemExit):
    """Ends the program where it can go on later. No KeyboardInterrupt, to which Lightning has an answer of its own."""


class StopOnSignal(Callback):
    """At a signal the run takes its step to the end, saves, and leaves; a second signal leaves at once.

    Left to itself, Lightning saves nothing at SIGINT, and at SIGTERM broadcasts from inside the signal handler. Here
    the processes of a run agree after every step whether one of them was asked to stop. A validation that the step
    calls for comes first: it belongs to the step, and a resumed run would not make up for it.

    This callback comes behind those that change with a step what a checkpoint holds.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        """``checkpoints`` writes the one of a stopped run, too."""
        self.checkpoints = checkpoints
        self._asked = False
        self._training = False
        self._before: dict[signal.Signals, Any] = {}

    # ---- signals

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._first = trainer.is_global_zero
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self._listen()

    def _listen(self) -> None:
        if threading.current_thread() is threading.main_thread():  # others may not
            for number in SIGNALS:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            os._exit(STATUS)
        self._asked = True
        if not self._training:
            raise self._interrupted()
        if self._first:
            # Not print, which may be what the signal interrupted.
            os.write(2, b"\nSaving after this step; press Ctrl-C again to quit now.\n")

    def _interrupted(self) -> Interrupted:
        # Lightning's launcher kills everybody when a process it started fails.
        return Interrupted(STATUS if self._first else 0)

    def _stop_listening(self) -> None:
        self._training = False
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)

    # ---- Lightning's hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._training = True
        self._listen()  # again: Lightning has just placed a handler of its own

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._listen()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: StepShard, batch_idx: int
    ) -> None:
        """The end of the step before: only now has Lightning finished counting it."""
        if trainer.strategy.reduce_boolean_decision(self._asked, all=False):
            # Lightning has counted the step that does not come, and would from then on validate a step too early.
            begun = trainer.fit_loop.epoch_loop.batch_progress
            begun.total.ready -= 1
            begun.current.ready -= 1
            self.checkpoints.save(trainer)
            raise self._interrupted()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._training = False
        if trainer.strategy.reduce_boolean_decision(self._asked, all=False):
            raise self._interrupted()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._stop_listening()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._stop_listening()


def end_other_processes() -> None:
    """A failed job takes its other processes along; of itself, Lightning would end this one too, and the sweep."""
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            processes = thread._child_processes  # type: ignore[attr-defined]  # Lightning's _ChildProcessObserver
            for process in processes:
                process.kill()
                process.wait()
            processes.clear()
