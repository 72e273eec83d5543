"""Lightning's Trainer, with what this project decides for everybody."""

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.precision import MixedPrecision

from heed.errors import HeedError
from heed.files import replacing, writing
from heed.kernels.allocator import keep_freed_memory
from heed.kernels.cpu import has_bf16_matmul
from heed.options import AtLeast1


def build_trainer(
    *,
    folder: Path,
    callbacks: list[Callback],
    loggers: list[Logger],
    accelerator: str,
    devices: int | str | list[int],
    num_nodes: AtLeast1,
    strategy: str,
    precision: int | str,
    max_steps: AtLeast1 | None,
    max_epochs: AtLeast1 | None,
    max_time: str | None,
    validate_every: AtLeast1,
    **lightning: Any,
) -> L.Trainer:
    """The trainer of one run. ``precision`` auto: bf16 where the hardware gains by it. Further flags go to Lightning.

    The data module counts the epochs (its stream is one long epoch to Lightning: data/datamodule.py), and the
    validation interval counts optimizer steps.

    Raises:
        HeedError: with Lightning's reason, if it refuses a setting.
    """
    # Ours is an iterable stream with an exact cursor of its own, read in the main process.
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    warnings.filterwarnings("ignore", ".*IterableDataset.*__len__.*")
    warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*")
    # ckpt_path begins another run's folder, and resume=true goes on in one that is not empty: both are meant.
    warnings.filterwarnings("ignore", ".*dirpath has changed.*")
    warnings.filterwarnings("ignore", ".*exists and is not empty.*")
    # Its notices are about itself; the journal tells what a person wants to know.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    if accelerator == "auto" and not torch.cuda.is_available():
        accelerator = "cpu"
    if accelerator == "cpu" and devices == "auto":
        devices = 1
    if accelerator == "cpu":
        keep_freed_memory()
    flag: int | str | None = resolve_precision(precision, accelerator)
    plugins: list[Any] = [WholeCheckpoints()]
    if flag == "16-mixed":
        plugins.append(HalfPrecision("cpu" if accelerator == "cpu" else "cuda"))
        flag = None
    try:
        return L.Trainer(
            default_root_dir=folder,
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            strategy=strategy,
            precision=flag,
            max_epochs=-1 if max_epochs is None else max_epochs,
            max_steps=-1 if max_steps is None else max_steps,
            max_time=max_time,
            val_check_interval=validate_every,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=1,
            logger=loggers or False,
            callbacks=callbacks,
            plugins=plugins,
            **lightning,
        )
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise HeedError(f"Lightning refuses these settings of trainer: {error}") from error


class HalfPrecision(MixedPrecision):
    """fp16 autocast with a gradient scaler, for a module that unscales its gradients itself in order to clip them.

    Lightning's unscales those of most optimizers a second time, which torch refuses.
    """

    def __init__(self, device: str) -> None:
        super().__init__("16-mixed", device, torch.amp.GradScaler(device))

    def optimizer_step(
        self, optimizer: Any, model: L.LightningModule, closure: Callable[[], Any], **options: Any
    ) -> Any:
        closure()
        self._after_closure(model, optimizer)
        taken = self.scaler.step(optimizer, **options)
        self.scaler.update()
        return taken


class WholeCheckpoints(TorchCheckpointIO):
    """Checkpoints as files that are whole or not there.

    Lightning's own way goes through the folder for temporary files, which may be full, or on another disk.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial, partial.open("wb") as file:
            try:
                torch.save(checkpoint, file)
            except RuntimeError as error:
                # The writer of the archive, unable to end it, hides what the disk said.
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Raises a HeedError where there is no checkpoint, or a damaged one."""
        try:
            checkpoint = torch.load(path, map_location=map_location or "cpu", weights_only=weights_only)
        except FileNotFoundError as error:
            raise HeedError(f"There is no checkpoint {path}.") from error
        except PermissionError:
            raise
        except Exception as error:  # whatever its bytes led torch to
            raise HeedError(f"{path} is no checkpoint, or a damaged one: name another with ckpt_path=.") from error
        if not isinstance(checkpoint, dict) or not {"state_dict", "loops", "callbacks"} <= checkpoint.keys():
            raise HeedError(f"{path} is no checkpoint of heed: name another with ckpt_path=.")
        return checkpoint


def resolve_precision(precision: int | str, accelerator: str) -> Any:
    """bf16 autocast on a GPU that has it and on a CPU that multiplies in it; other CPUs are slower in bf16."""
    if precision != "auto":
        return precision
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    gains = torch.cuda.is_bf16_supported() if on_gpu else has_bf16_matmul()
    return "bf16-mixed" if gains else "32-true"
