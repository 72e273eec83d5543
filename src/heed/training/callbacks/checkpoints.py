"""Save checkpoints, and keep the best ones by validation and the latest ones."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint

from heed.files import replacing
from heed.runs.checkpoints import Selection, checkpoint_step


class Checkpoints(Checkpoint):
    """Writes ``best-STEP.ckpt`` and ``last-STEP.ckpt`` after each validation, and ``last-STEP.ckpt`` at a signal.

    Lightning's ModelCheckpoint compares one number, so it cannot break ties, and it never removes a file that a kill
    left behind. This callback first writes the new file, then removes those that are neither among the best nor among
    the latest: a run killed at any time has all files that its newest checkpoint refers to, and the resumed run removes
    the others. Lightning calls a `Checkpoint` after all other callbacks, so it saves their states after the step.
    """

    def __init__(self, folder: Path, *, selection: Selection, keep_best: int, keep_last: int) -> None:
        """
        Args:
            folder: for the files.
            selection: compares validations.
            keep_best: best checkpoints to keep; -1: all.
            keep_last: latest checkpoints to keep; -1: all.
        """
        self.folder = folder
        self.selection = selection
        self.keep_best, self.keep_last = keep_best, keep_last
        self.scores: dict[int, dict[str, float]] = {}
        """Validation scores of the best checkpoints, by step."""
        self._restored = False

    # ---- files

    @property
    def best(self) -> list[Path]:
        """The best checkpoints, best first; among equals the earlier one first."""
        return [self._path("best", step) for step in self._ranked_steps()]

    @property
    def last(self) -> list[Path]:
        """The latest checkpoints, latest first."""
        return sorted(self.folder.glob("last-*.ckpt"), key=checkpoint_step, reverse=True)

    def _ranked_steps(self) -> list[int]:
        return sorted(self.scores, key=lambda step: (self.selection.key(self.scores[step]), -step), reverse=True)

    def _path(self, kind: str, step: int) -> Path:
        return self.folder / f"{kind}-{step:07d}.ckpt"

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        return {"scores": self.scores}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # A run that starts from another run's checkpoint has none of the files.
        self.scores = {step: s for step, s in state_dict["scores"].items() if self._path("best", step).exists()}
        self._restored = True

    # ---- hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.scores = trainer.strategy.broadcast(self.scores)
        if trainer.is_global_zero and self._restored:
            self._remove_others(trainer.global_step)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.save(trainer, pl_module.validation_scores)

    def save(self, trainer: L.Trainer, scores: Mapping[str, float] | None = None) -> None:
        """Save a checkpoint of the current step, if it is to be kept. All processes have to call it.

        Args:
            scores: of the validation after this step, if there was one.
        """
        step = trainer.global_step
        if scores is not None:
            self.scores[step] = dict(scores)
            for worse in self._ranked_steps()[self.keep_best :] if self.keep_best >= 0 else ():
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
        """Remove all files except the best and the latest up to ``step``; a resumed run repeats the later steps."""
        best = set(self.best)
        removed = [path for path in self.folder.glob("best-*.ckpt") if path not in best]
        candidates = [path for path in self.last if checkpoint_step(path) <= step]
        latest = candidates[: self.keep_last] if self.keep_last >= 0 else candidates
        for path in removed + [path for path in self.last if path not in latest]:
            # On Windows, a file that another program reads cannot be removed: try again after the next checkpoint.
            with suppress(PermissionError):
                path.unlink(missing_ok=True)


def _link(file: Path, copy: Path) -> None:
    """Give a file a second name with a hard link, or copy it where the file system has no hard links."""
    with replacing(copy, durable=True) as partial:
        try:
            partial.hardlink_to(file)
        except (OSError, NotImplementedError):
            shutil.copyfile(file, partial)
