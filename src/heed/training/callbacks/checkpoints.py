"""Which checkpoints a run keeps: the best by validation, and the latest, from which it resumes."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from heed.files import replacing
from heed.runs.checkpoints import checkpoint_step
from heed.runs.selection import Selection


class Checkpoints(Checkpoint):
    """Writes ``best-STEP.ckpt`` and ``last-STEP.ckpt`` after each validation, and ``last-STEP.ckpt`` at a signal.

    Lightning's ModelCheckpoint compares one number and so keeps the earlier of two equals, and what it keeps depends on
    its own memory: a run killed between two of its files leaves one for good. Here a new file is written first, and
    then whatever the newest checkpoint does not count among the best is removed; so a kill at any moment leaves every
    file that the newest checkpoint knows, and the resumed run removes the rest.

    Lightning calls it behind all other callbacks (`Checkpoint`), so that it saves their states after the step.
    """

    def __init__(self, folder: Path, *, selection: Selection, keep_best: int, keep_last: int) -> None:
        """
        Args:
            keep_best: how many of the best; -1: all.
            keep_last: how many of the latest; -1: all.
        """
        self.folder = folder
        self.selection = selection
        self.keep_best, self.keep_last = keep_best, keep_last
        self.scores: dict[int, dict[str, float]] = {}
        """Validation scores of the best checkpoints, by step."""
        self._restored = False

    # ---- what is kept

    @property
    def best(self) -> list[Path]:
        """The best checkpoints that were kept, the best first; of equals the earlier first."""
        return [self._path("best", step) for step in self._ranked()]

    @property
    def last(self) -> list[Path]:
        """The latest checkpoints that were kept, the latest first."""
        return sorted(self.folder.glob("last-*.ckpt"), key=checkpoint_step, reverse=True)

    def _ranked(self) -> list[int]:
        return sorted(self.scores, key=lambda step: (self.selection.key(self.scores[step]), -step), reverse=True)

    def _path(self, kind: str, step: int) -> Path:
        return self.folder / f"{kind}-{step:07d}.ckpt"

    # ---- state: the names of files in this folder; a run that begins with another run's checkpoint has none of them

    def state_dict(self) -> dict[str, Any]:
        return {"scores": self.scores}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.scores = {step: s for step, s in state_dict["scores"].items() if self._path("best", step).exists()}
        self._restored = True

    # ---- Lightning's hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.scores = trainer.strategy.broadcast(self.scores)
        if trainer.is_global_zero:
            for unfinished in self.folder.glob("*.partial"):
                unfinished.unlink()
            if self._restored:
                self._remove_others(trainer.global_step)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            self.save(trainer, pl_module.validation_scores)

    def save(self, trainer: L.Trainer, scores: Mapping[str, float] | None = None) -> None:
        """Write a checkpoint of this step, if it is to be kept. All processes of a run call it.

        Args:
            scores: of the validation after this step, if there was one.
        """
        step = trainer.global_step
        if scores is not None:
            self.scores[step] = dict(scores)
            for worse in self._ranked()[self.keep_best :] if self.keep_best >= 0 else ():
                del self.scores[worse]
        files = [self._path("best", step)] if step in self.scores else []
        files += [self._path("last", step)] if self.keep_last else []
        if not files:
            return
        trainer.save_checkpoint(files[0])
        if trainer.is_global_zero:
            for file in files[1:]:
                _link(files[0], file)
            self._remove_others(step)
        trainer.strategy.barrier()

    def _remove_others(self, step: int) -> None:
        """Remove what is kept no longer, and what is of later steps than this one, which a resumed run repeats."""
        best = set(self.best)
        others = [path for path in self.folder.glob("best-*.ckpt") if path not in best]
        ours = [path for path in self.last if checkpoint_step(path) <= step]
        kept = ours[: self.keep_last] if self.keep_last >= 0 else ours
        for path in others + [path for path in self.last if path not in kept]:
            path.unlink(missing_ok=True)


def find_checkpoints(callbacks: list[Callback]) -> Checkpoints:
    """The one among a trainer's callbacks."""
    return next(callback for callback in callbacks if isinstance(callback, Checkpoints))


def _link(file: Path, copy: Path) -> None:
    """Give a file a second name, or where the file system has no such thing, a copy. Nothing writes into either."""
    with replacing(copy) as partial:
        try:
            os.link(file, partial)
        except OSError:
            shutil.copyfile(file, partial)
