"""Save checkpoints, and keep the best ones by validation and the latest ones."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint

from heed.errors import HeedError
from heed.files import replacing, writing
from heed.progress import print_line
from heed.runs.checkpoints import Selection, check_undamaged, checkpoint_step


class Checkpoints(Checkpoint):
    """Writes ``best-STEP.ckpt`` and ``last-STEP.ckpt`` after each validation, and ``last-STEP.ckpt`` at a signal.

    Lightning's ModelCheckpoint compares one number, so it cannot break ties, and it never removes a file that a kill
    left behind. This callback first writes the new file, then removes those that are neither among the best nor among
    the latest: a run killed at any time has all files that its newest checkpoint refers to, and the resumed run removes
    the others. Lightning calls a `Checkpoint` after all other callbacks, so it saves their states after the step.
    """

    def __init__(self, folder: Path, *, selection: Selection, keep_best: int, keep_last: int) -> None:
        """``keep_best`` and ``keep_last`` checkpoints are kept; -1: all. ``selection`` compares validations."""
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
        return [self._path("best", step) for step in self.selection.ranked(self.scores)]

    @property
    def last(self) -> list[Path]:
        """The latest checkpoints, latest first."""
        return sorted(self.folder.glob("last-*.ckpt"), key=checkpoint_step, reverse=True)

    def _path(self, kind: str, step: int) -> Path:
        return self.folder / f"{kind}-{step:07d}.ckpt"

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        return {"scores": self.scores}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.scores = dict(state_dict["scores"])
        self._restored = True

    # ---- hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not self._restored:
            return
        missing = [path for path in self.best if not path.exists()]
        if missing and trainer.is_global_zero:
            print_line(
                f"Of the best checkpoints, {', '.join(path.name for path in missing)} no longer exist: the best one is "
                "chosen from the others."
            )
        self.scores = {step: scores for step, scores in self.scores.items() if self._path("best", step).exists()}
        self.scores = trainer.strategy.broadcast(self.scores)
        self.on_fit_end(trainer, pl_module)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Remove what a killed process left. Training need not start: its last step may be that of the checkpoint."""
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
            for worse in self.selection.ranked(self.scores)[self.keep_best :] if self.keep_best >= 0 else ():
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
        latest = [path for path in self.last if checkpoint_step(path) <= step]
        kept = {*self.best, *(latest[: self.keep_last] if self.keep_last >= 0 else latest)}
        for path in {*self.folder.glob("best-*.ckpt"), *self.last} - kept:
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


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint completely or not at all.

    Lightning writes to the system's folder for temporary files first, which may be full or on another disk.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=True) as partial, partial.open("wb") as file:
            try:
                torch.save(checkpoint, file)
            except RuntimeError as error:
                # torch's archive writer hides the error of the disk behind its own.
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Load a checkpoint.

        Raises:
            HeedError: if the file is missing, damaged or not a checkpoint of heed.
        """
        try:
            check_undamaged(Path(path))
            checkpoint = torch.load(path, map_location=map_location or "cpu", weights_only=weights_only)
        except FileNotFoundError as error:
            raise HeedError(f"There is no checkpoint {path}.") from error
        except PermissionError:
            raise
        except Exception as error:  # damaged bytes lead to many kinds of exceptions
            raise HeedError(
                f"{path} is no checkpoint, or a damaged one: choose another one with ckpt_path=."
            ) from error
        if not isinstance(checkpoint, dict) or not {"state_dict", "loops", "callbacks"} <= checkpoint.keys():
            raise HeedError(f"{path} is no checkpoint of heed: choose another one with ckpt_path=.")
        return checkpoint
