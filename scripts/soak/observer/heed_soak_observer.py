"""A Lightning callback that records what a run does: its phases, and the sentences of every optimizer step.

Lightning loads it through the entry point group ``lightning.pytorch.callbacks_factory``, so the observed program needs
no change. Every process writes to ``$HEED_SOAK_EVENTS/<time>-<pid>.jsonl`` with one write call for each record, so that
a SIGKILL loses no written record.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

LOSSES = ("loss_sum", "nll_sum")
"""Keys of a step's outputs: losses of this process's shard."""


class Observer(Callback):  # type: ignore[misc]  # mypy does not read Lightning
    """Writes a JSON record at the start of each phase and after each optimizer step."""

    def __init__(self, folder: Path) -> None:
        path = folder / f"{time.monotonic_ns():020d}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _write(self, event: str, **fields: Any) -> None:
        record = json.dumps({"event": event, "pid": os.getpid(), **fields})
        os.write(self._file, f"{record}\n".encode())

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._write("setup", rank=trainer.global_rank, stage=stage)
        if stage != "fit":
            return
        save = trainer.save_checkpoint

        def observed(*args: Any, **kwargs: Any) -> None:
            self._write("saving")
            save(*args, **kwargs)
            self._write("training")

        trainer.save_checkpoint = observed

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._write("started", step=trainer.global_step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._write(
            "step",
            step=trainer.global_step,
            epoch=batch.epoch,
            number=batch.step,
            sentences={str(number): part.index.tolist() for number, part in batch.micro_batches},
            losses={key: float(value).hex() for key, value in outputs.items() if key in LOSSES},
        )

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._write("validating")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._write("training")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._write("testing")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self._write("finishing")


def observers() -> list[Callback]:
    """Return the callbacks for `Trainer`: an observer if ``HEED_SOAK_EVENTS`` is set."""
    folder = os.environ.get("HEED_SOAK_EVENTS")
    return [Observer(Path(folder))] if folder else []
